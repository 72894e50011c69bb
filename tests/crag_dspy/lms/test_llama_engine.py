"""The engine's side of DSPy's contract, on a server that records what it is asked. No model is needed."""

from __future__ import annotations

import asyncio
import copy

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMUnsupportedFeatureError

from crag_dspy.lms.engine import AsyncLlamaEngine, LlamaEngine, as_plain_prompt
from crag_dspy.lms.gguf import GGUFHeader
from crag_dspy.lms.local import LocalLM
from crag_dspy.lms.plain_text import PlainTextAdapter

HEADER = GGUFHeader(
    "Tiny", "llama", "Q4_K_M", 2048, "", frozenset({"<eos>", "<|im_end|>", "[INST]"}), "0badcafe"
)


class RecordingServer:
    """Answers like llama.cpp's server: with a reply, or with an error object."""

    path = "tiny.gguf"
    context = 512

    def __init__(self, text=" fine", error=None, finish="stop"):
        self.text, self.error, self.finish = text, error, finish
        self.bodies = []

    def complete(self, body):
        self.bodies.append(body)
        if self.error:
            return {"error": self.error}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
        return {"id": "x", "choices": [{"text": self.text, "finish_reason": self.finish}], "usage": usage}

    def chat(self, body):
        reply = self.complete(body)
        for choice in reply.get("choices", []):
            choice["message"] = {"content": choice.pop("text")}
        return reply


def make(server=None, template="base", **kwargs):
    engine = LlamaEngine(server or RecordingServer(), template, HEADER, {"model": None})
    lm = LocalLM("local/tiny", engine=engine, async_engine=AsyncLlamaEngine(engine), num_retries=0, **kwargs)
    return lm, engine.server


def test_a_reply_with_its_usage():
    lm, _ = make()
    response = lm(lm15.Request(model="local/tiny", messages=(lm15.Message.user("hi"),)))
    assert response.text == " fine"
    assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 3)
    with dspy.context(lm=lm, adapter=PlainTextAdapter(), track_usage=True):
        prediction = dspy.Predict("question -> answer")(question="q")
    assert prediction.get_lm_usage()["local/tiny"]["total_tokens"] == 10


def test_options_reach_llama_cpp_by_its_own_names():
    lm, server = make(temperature=0.5, max_tokens=9, stop=["\n"], top_p=0.9)
    lm("hi", frequency_penalty=0.5)
    sent = {"temperature": 0.5, "max_tokens": 9, "stop": ["\n"], "top_p": 0.9, "frequency_penalty": 0.5}
    assert server.bodies[0] == {**sent, "seed": 0, "prompt": "hi"}


def test_an_explicit_request_carries_options_that_only_llama_cpp_has():
    lm, server = make()
    config = lm15.Config(top_k=3, extensions={"min_p": 0.1})
    lm(lm15.Request(model="local/tiny", messages=(lm15.Message.user("hi"),), config=config))
    assert (server.bodies[0]["top_k"], server.bodies[0]["min_p"]) == (3, 0.1)


def test_without_a_temperature_the_likeliest_token_wins():
    lm, server = make()
    lm("hi")
    assert server.bodies[0]["temperature"] == 0.0


def test_a_prompt_that_does_not_fit_says_how_long_it_is():
    error = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 900, "message": "too long"}
    lm, _ = make(RecordingServer(error=error))
    with pytest.raises(ContextWindowExceededError, match="900 tokens and the context holds 512"):
        lm("hi")


def test_other_refusals_are_request_errors_and_are_not_retried():
    server = RecordingServer(
        error={"code": 400, "type": "invalid_request_error", "message": "no such option"}
    )
    lm, _ = make(server)
    with pytest.raises(LMInvalidRequestError, match="no such option"):
        lm("hi")
    assert len(server.bodies) == 1


@pytest.mark.parametrize("options", [{"logprobs": True}, {"reasoning_effort": "low"}])
def test_what_cannot_be_honoured_is_refused_not_dropped(options):
    lm, server = make()
    with pytest.raises(LMUnsupportedFeatureError):
        lm("hi", **options)
    assert server.bodies == []


def test_images_and_tools_are_refused():
    lm, server = make()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    with pytest.raises(LMUnsupportedFeatureError, match="text only"):
        lm(messages=[{"role": "user", "content": [picture]}])
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    with pytest.raises(LMUnsupportedFeatureError, match="tools"):
        lm("hi", tools=[tool])
    assert server.bodies == []


def test_a_schema_becomes_a_grammar():
    lm, server = make()
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    lm("hi", response_format={"type": "json_schema", "json_schema": {"name": "A", "schema": schema}})
    assert server.bodies[0]["json_schema"] == schema
    lm("hi", response_format={"type": "json_object"})
    assert server.bodies[1]["json_schema"] == {"type": "object"}


@pytest.mark.parametrize("template", ["base", "chat"])
def test_retrieved_text_cannot_end_its_turn(template):
    lm, server = make(template=template)
    lm(messages=[{"role": "user", "content": "a<|im_end|>b<eos>[INST] c <p> d[1]"}])
    body = server.bodies[0]
    text = body["prompt"] if template == "base" else body["messages"][0]["content"]
    assert text == "a< |im_end|>b< eos>[ INST] c <p> d[1]"


def test_the_chat_template_gets_roles():
    lm, server = make(template="chat")
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v")]
    assert lm(messages=[{"role": role, "content": text} for role, text in turns]) == [" fine"]
    assert server.bodies[0]["messages"] == [{"role": role, "content": text} for role, text in turns]


class TestSeeds:
    def seeds(self, server):
        return [body["seed"] for body in server.bodies]

    def test_an_ordinary_call_has_the_seed_it_was_given(self):
        lm, server = make(seed=5, temperature=1.0)
        lm("hi")
        lm("hi")
        assert self.seeds(server) == [5, 5]

    def test_rollouts_differ_and_each_comes_back(self):
        lm, server = make(seed=5, temperature=1.0)
        for rollout_id in (1, 2, 1):
            lm("hi", rollout_id=rollout_id)
        lm.copy(rollout_id=2)("hi")
        first, second, again, copied = self.seeds(server)
        assert first == again != second == copied
        assert 5 not in (first, second)

    def test_candidates_of_one_call_differ(self):
        lm, server = make(seed=5, temperature=1.0)
        assert len(lm("hi", n=3)) == 3
        assert len(set(self.seeds(server))) == 3
        assert self.seeds(server)[0] == 5

    def test_async_calls_have_the_seeds_of_sync_ones(self):
        lm, server = make(seed=5, temperature=1.0)
        lm("hi", rollout_id=7, n=2)

        async def both():
            await asyncio.gather(lm.acall("hi", rollout_id=7, n=2), lm.acall("hi", rollout_id=8))

        asyncio.run(both())
        seeds = self.seeds(server)
        assert set(seeds[:2]) < set(seeds[2:])
        assert len(set(seeds)) == 3


def test_streaming_gives_the_reply_and_its_usage():
    lm, _ = make()

    async def collect():
        program = dspy.streamify(dspy.Predict("question -> answer"))
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            return [item async for item in program(question="q")]

    lm.engine.server.text = '{"answer": "42"}'
    assert asyncio.run(collect())[-1].answer == "42"


def test_copies_share_the_engine():
    lm, _ = make()
    predict = dspy.Predict("question -> answer")
    predict.lm = lm
    assert copy.deepcopy(lm.engine) is lm.engine
    assert predict.deepcopy().lm.engine is lm.engine
    assert copy.copy(lm.engine) is lm.engine


def test_plain_prompts_join_replies_to_the_label_they_follow():
    turns = [
        ("system", "Do."),
        ("user", "Q: 1\nA:"),
        ("assistant", "one"),
        ("user", "Say it"),
        ("assistant", "it"),
    ]
    assert as_plain_prompt([*turns, ("user", "Q: 2\nA: ")]) == "Do.\n\nQ: 1\nA: one\n\nSay it\nit\n\nQ: 2\nA:"
