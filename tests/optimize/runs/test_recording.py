"""A run with a language model is recorded once, and repeated without one."""

import asyncio
import http.server
import json
import threading

import dspy
import pytest

from crag_dspy.errors import BudgetSpentError, ConfigError, ReplayError
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.runs.cap import Cap, capped
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.runs.recording import recording, replaying

SECRET = "sk-abcdef0123456789"


class Unreachable:
    """In the place of a hosted model."""

    def complete(self, request):
        raise AssertionError("a model was called")


class UnreachableToo:
    async def complete(self, request):
        raise AssertionError("a model was called")


def unreachable():
    return dspy.LM(
        "scripted/by-field", engine=Unreachable(), async_engine=UnreachableToo(), cache=False, num_retries=0
    )


def test_an_evaluation_is_repeated_without_its_model(
    scripted_lm, capitals_program, capitals_devset, capitals_script, tmp_path
):
    with dspy.context(lm=scripted_lm(capitals_script)), recording(tmp_path / "replies"):
        first = evaluate(capitals_program(), capitals_devset, contains_word)
    with dspy.context(lm=unreachable()), replaying(tmp_path / "replies"):
        again = evaluate(capitals_program(), capitals_devset, contains_word, threads=3)

    def told(done):
        return [
            (row["answer"], row["scores"], row["cost"]["lm_calls"], row["cost"]["tokens"])
            for row in done.rows
        ]

    assert told(first) == told(again)
    assert first.cost.lm_calls > 0


def test_another_prompt_or_argument_has_no_reply(scripted_lm, tmp_path):
    program = dspy.Predict("question -> answer")
    with dspy.context(lm=scripted_lm({"answer": "yes"})), recording(tmp_path):
        program(question="a")

    with dspy.context(lm=unreachable()), replaying(tmp_path):
        assert program(question="a").answer == "yes"
        with pytest.raises(ReplayError, match="no reply of scripted/by-field"):
            program(question="b")
        with pytest.raises(ReplayError):
            program(question="a", config={"temperature": 0.5})


def test_the_same_request_gives_its_replies_in_order_and_then_the_last(scripted_lm, tmp_path):
    program = dspy.Predict("question -> answer")
    with dspy.context(lm=scripted_lm({"answer": ["one", "two"]})), recording(tmp_path):
        program(question="a")
        program(question="a")

    with dspy.context(lm=unreachable()), replaying(tmp_path):
        assert [program(question="a").answer for _ in range(3)] == ["one", "two", "two"]


@pytest.fixture
def hosted():
    """The address of a server that answers like OpenAI's."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            reply = {"id": "1", "model": "m", "object": "chat.completion", "created": 1}
            message = {"role": "assistant", "content": "hello"}
            reply["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
            reply["usage"] = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_key_and_no_address_is_written_and_none_is_needed_to_replay(hosted, tmp_path):
    lm = dspy.LM("openai/gpt-4o-mini", api_key=SECRET, api_base=hosted, cache=False)
    with recording(tmp_path), capped(Cap(cost=1)) as cap:
        assert lm("hi") == ["hello"]
    written = "".join(path.read_text() for path in tmp_path.iterdir())

    assert SECRET not in written
    assert hosted not in written
    assert cap.spent.cost == pytest.approx((3 * 0.15 + 0.6) / 1e6)
    with replaying(tmp_path):
        other = dspy.LM("openai/gpt-4o-mini", api_key="another", api_base="http://127.0.0.1:9", cache=False)
        assert other("hi") == ["hello"]


def test_recording_goes_on_in_the_same_folder_and_coroutines_are_recorded(scripted_lm, tmp_path):
    program = dspy.Predict("question -> answer")
    for question in ("a", "b"):
        with dspy.context(lm=scripted_lm({"answer": question.upper()})), recording(tmp_path):
            asyncio.run(program.acall(question=question))

    with dspy.context(lm=unreachable()), replaying(tmp_path):
        assert program(question="a").answer == "A"
        assert asyncio.run(program.acall(question="b")).answer == "B"


def test_a_limit_stops_a_repeated_run_where_it_stopped_the_first(scripted_lm, tmp_path):
    program = dspy.Predict("question -> answer")
    with dspy.context(lm=scripted_lm({"answer": "yes"})), recording(tmp_path):
        program(question="a")
        program(question="b")

    with capped(Cap(calls=1)) as cap, dspy.context(lm=unreachable()), replaying(tmp_path):
        program(question="a")
        with pytest.raises(BudgetSpentError):
            program(question="b")
    assert cap.spent.calls == 1
    assert cap.spent.tokens > 0


def test_a_folder_without_replies_is_an_error_before_anything_is_asked(tmp_path):
    with pytest.raises(ConfigError, match="no recorded replies"), replaying(tmp_path):
        pass
