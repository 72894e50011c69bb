"""Where a Weaviate is, and the clients with which this process asks it.

Nothing connects before it is needed, and every process connects for itself: a parent's connection does not
survive a fork. Clients that are made here are closed here; one that the caller made is never closed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, urlsplit

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.live.held import Held
from crag_dspy.live.per_loop import PerLoop
from crag_dspy.live.per_process import PerProcess
from crag_dspy.live.secret import Secret
from crag_dspy.retrievers.weaviate_errors import StartingError
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_VARIABLE = "WEAVIATE_API_KEY"
# By itself gRPC lets its pauses grow to two minutes, in which a server that is up again is not asked.
RECONNECT = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 2_000))
# Of the timeout: what a connection to the gRPC port may take, so that three tries fit.
GRPC_SHARE = 0.25
FORK_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"


class Connection(Protocol):
    """How a retriever gets at a Weaviate."""

    def client(self) -> Any:
        """This process's connected `WeaviateClient`."""
        ...

    async def aclient(self) -> Any:
        """This event loop's connected `WeaviateAsyncClient`, or None where there is only a sync one."""
        ...

    def holds(self, client: Any) -> bool:
        """False once the client that `client()` gave was closed by somebody, so that the next one is another."""
        ...

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, repr=False, eq=False)
class Remote(Held):
    """A Weaviate at an address: one node, a cluster, or Weaviate Cloud.

    Args:
        url: of its REST interface, such as "http://localhost:8080"; for the cloud, the cluster's URL.
        key: its API key; None reads WEAVIATE_API_KEY, and without either it is asked anonymously.
        cloud: the address is a cluster of Weaviate Cloud.
        grpc_port: of its gRPC interface.
        grpc_host: of its gRPC interface, when that is another host.
        headers: header -> NAME of the environment variable that holds its value, for the keys of the
            server's own vectorizers: `{"X-OpenAI-Api-Key": "OPENAI_API_KEY"}`.
        timeout: seconds for one request of a search.
    """

    url: str
    key: Secret = field(default_factory=lambda: Secret(None, KEY_VARIABLE))
    cloud: bool = False
    grpc_port: int = 50051
    grpc_host: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 10.0
    _sync: PerProcess[Any] = field(init=False)
    _async: PerLoop[Any] = field(init=False)

    def __post_init__(self) -> None:
        address = urlsplit(f"https://{self.url}" if self.cloud and "://" not in self.url else self.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"url must be an address such as http://localhost:8080, got {self.url!r}")
        if address.username is not None or address.password is not None:
            raise ConfigError("url must hold no user and no password, which messages would show: use key=")
        if address.path.strip("/") or address.query:
            raise ConfigError(f"url must end after the host and its port, got {self.url!r}")
        check_whole("grpc_port", self.grpc_port, 1, 65_535)
        same_host = self.grpc_host in (None, address.hostname)
        if not self.cloud and same_host and _port(address) == self.grpc_port:
            raise ConfigError(
                f"grpc_port={self.grpc_port} is the port of the url, {self.url!r}: gRPC has a port of its own, "
                f"50051 by default"
            )
        if not all(isinstance(name, str) and name for pair in self.headers.items() for name in pair):
            raise ConfigError("headers must map a header to the NAME of an environment variable")
        object.__setattr__(self, "_sync", PerProcess(self._connect))
        object.__setattr__(self, "_async", PerLoop(self._aconnect, _aclose))

    def __repr__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        places = (self.cloud, self.grpc_port, self.grpc_host, dict(self.headers), self.timeout)
        return (Remote, (self.url, self.key, *places))

    def client(self) -> Any:
        _check_process()
        return self._sync.get()

    async def aclient(self) -> Any:
        _check_process()
        return await self._async.get()

    def holds(self, client: Any) -> bool:
        return self._sync.holds(client)

    def close(self) -> None:
        """Close this process's sync client; the next search connects again."""
        client = self._sync.take()
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close this event loop's client. A loop that ends closes its own."""
        await self._async.close()

    def _connect(self) -> Any:
        weaviate = client_library()
        connect = weaviate.connect_to_weaviate_cloud if self.cloud else weaviate.connect_to_custom
        client = connect(**self._arguments())
        try:
            self._check_grpc()
        except BaseException:
            client.close()
            raise
        return closed_at_exit(client, self)

    async def _aconnect(self) -> Any:
        weaviate = await asyncio.to_thread(client_library)  # an import of seconds, off the event loop
        use = weaviate.use_async_with_weaviate_cloud if self.cloud else weaviate.use_async_with_custom
        client = use(**self._arguments())
        _note_async_process()
        try:
            await client.connect()
            await asyncio.to_thread(self._check_grpc)
        except BaseException:
            await client.close()
            raise
        return client

    def _check_grpc(self) -> None:
        """The client alone tries a wrong grpc_port for a minute, and then says nothing of it."""
        if self.cloud:
            return
        import grpc

        address = urlsplit(self.url)
        place = f"{self.grpc_host or address.hostname}:{self.grpc_port}"
        options = [*RECONNECT, ("grpc.use_local_subchannel_pool", 1)]
        if address.scheme == "https":
            channel = grpc.secure_channel(place, grpc.ssl_channel_credentials(), options)
        else:
            channel = grpc.insecure_channel(place, options)
        try:
            grpc.channel_ready_future(channel).result(self.timeout * GRPC_SHARE)
        except grpc.FutureTimeoutError:
            pass
        else:
            return
        finally:
            channel.close()
        raise StartingError(
            f"Weaviate answers at {self.url}, and nothing speaks gRPC at {place}: check grpc_port= (and grpc_host=), "
            f"or wait until it has started"
        )

    def _arguments(self) -> dict[str, Any]:
        from weaviate.classes.init import AdditionalConfig, Auth, Timeout
        from weaviate.config import GrpcConfig

        key = self.key.value()
        common = {
            "auth_credentials": Auth.api_key(key) if key else None,
            "headers": {name: _from_environment(name, variable) for name, variable in self.headers.items()},
            "additional_config": AdditionalConfig(
                timeout=Timeout(query=self.timeout), grpc_config=GrpcConfig(channel_options=list(RECONNECT))
            ),
            # The checks would ask a package registry for newer clients: no address but the service is asked.
            "skip_init_checks": True,
        }
        if self.cloud:
            return {"cluster_url": self.url, **common}
        address = urlsplit(self.url)
        secure = address.scheme == "https"
        return {
            "http_host": address.hostname,
            "http_port": _port(address),
            "http_secure": secure,
            "grpc_host": self.grpc_host or address.hostname,
            "grpc_port": self.grpc_port,
            "grpc_secure": secure,
            **common,
        }


@dataclass(frozen=True, eq=False)
class Embedded(Held):
    """A Weaviate that the client starts on this machine, and that ends with the process that started it.

    The client downloads the server the first time. Forked children use their parent's server.

    Args:
        path: folder of its data; None is the client's default.
        version: of the server; None is the client's default.
        port: of its REST interface.
        grpc_port: of its gRPC interface.
    """

    path: str | None = None
    version: str | None = None
    port: int = 8079
    grpc_port: int = 50050
    _sync: PerProcess[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sync", PerProcess(self._connect))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Embedded, (self.path, self.version, self.port, self.grpc_port))

    def client(self) -> Any:
        _check_process()
        return self._sync.get()

    async def aclient(self) -> None:
        """None: an async client would start a second server."""

    def holds(self, client: Any) -> bool:
        return self._sync.holds(client)

    def close(self) -> None:
        client = self._sync.take()
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """There is nothing of a loop's own to close."""

    def _connect(self) -> Any:
        weaviate = client_library()
        options: dict[str, Any] = {"persistence_data_path": self.path, "version": self.version}
        ports: dict[str, Any] = {"port": self.port, "grpc_port": self.grpc_port}
        try:
            given = {name: value for name, value in options.items() if value is not None}
            client = weaviate.connect_to_embedded(**ports, **given)
        except weaviate.exceptions.WeaviateStartUpError as error:
            if "already listening" not in str(error):
                raise
            client = weaviate.connect_to_local("127.0.0.1", **ports, skip_init_checks=True)
        return closed_at_exit(client, self)


@dataclass(frozen=True, repr=False, eq=False)
class Given(Held):
    """A client that the caller made and closes. It serves the process that it was made in, and no other.

    Args:
        given: a `weaviate.WeaviateClient` or `weaviate.WeaviateAsyncClient` of weaviate-client v4.
    """

    given: Any
    _pid: int = field(init=False, default_factory=os.getpid)

    def __post_init__(self) -> None:
        if hasattr(self.given, "data_object") or hasattr(self.given, "schema"):
            raise TypeError(
                "client is a weaviate-client v3 `weaviate.Client`, whose interface is gone: upgrade "
                "weaviate-client to version 4 and pass what weaviate.connect_to_local() returns, or a url"
            )
        if not hasattr(self.given, "collections"):
            raise TypeError(
                f"client must be a weaviate.WeaviateClient or WeaviateAsyncClient, got "
                f"{type(self.given).__name__}"
            )

    def __repr__(self) -> str:
        return "the client that was passed in"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a retriever on a client that was passed in cannot be pickled: make it from a url")

    @property
    def _is_async(self) -> bool:
        import weaviate

        return isinstance(self.given, weaviate.WeaviateAsyncClient)

    def client(self) -> Any:
        self._check_owner()
        if self._is_async:
            raise RetrieverError(
                "this retriever was given an async client: use `acall`, or make it from a url"
            )
        return self.given

    async def aclient(self) -> Any:
        self._check_owner()
        return self.given if self._is_async else None

    def holds(self, client: Any) -> bool:
        return True

    def close(self) -> None:
        """The caller made the client, and the caller closes it."""

    async def aclose(self) -> None:
        """The caller made the client, and the caller closes it."""

    def _check_owner(self) -> None:
        if os.getpid() != self._pid:
            raise RetrieverError(
                f"the client was made in process {self._pid}, and this is {os.getpid()}: a connection does "
                f"not survive a fork. Make the retriever from a url, so that each process connects itself"
            )


def closed_at_exit(client: Any, owner: object) -> Any:
    """Close `client` when `owner` goes or the program ends, in the process that connected it only."""
    weakref.finalize(owner, _close_own, client, os.getpid())
    return client


def _close_own(client: Any, pid: int) -> None:
    if os.getpid() == pid:
        client.close()


async def _aclose(client: Any) -> None:
    await client.close()


def _port(address: SplitResult) -> int:
    return address.port or (443 if address.scheme == "https" else 80)


def _from_environment(header: str, variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise RetrieverError(f"header {header} takes its value from {variable}, which is not set")
    return value


# What a fork does to gRPC (grpcio 1.78, measured): a child of a process that searched waits for ever, unless
# GRPC_ENABLE_FORK_SUPPORT was set before grpc was first imported; and a child of a process that searched with
# asyncio waits for ever all the same, in its sync calls too. A child that never ends is worse than an error.
_used_in: int | None = None
_async_used_in: int | None = None
_fork_support = False


def client_library() -> Any:
    """`weaviate`, imported so that connections may be made anew after a fork."""
    global _fork_support
    if "weaviate" not in sys.modules:
        if "grpc" not in sys.modules:
            os.environ.setdefault(FORK_VARIABLE, "1")
        _fork_support = os.environ.get(FORK_VARIABLE, "").lower() in ("1", "true", "yes", "on")
    import weaviate

    return weaviate


def _check_process() -> None:
    """Note who searches first, and refuse to search where it would not end."""
    global _used_in
    if _async_used_in not in (None, os.getpid()):
        raise RetrieverError(
            f"process {os.getpid()} was forked after its parent {_async_used_in} searched Weaviate with asyncio, "
            f"which gRPC does not survive: fork before the first async search, or start with 'spawn'"
        )
    if _used_in not in (None, os.getpid()) and not _fork_support:
        raise RetrieverError(
            f"process {os.getpid()} was forked after its parent {_used_in} searched Weaviate, which gRPC survives "
            f"only with {FORK_VARIABLE}=1 set before it is imported: set it, or fork before the first search"
        )
    if _used_in is None:
        _used_in = os.getpid()


def _note_async_process() -> None:
    global _async_used_in
    _async_used_in = os.getpid()
