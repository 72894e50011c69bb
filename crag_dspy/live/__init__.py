"""Parts that live: held by identity, one a process or an event loop, tried again, with their secrets."""
