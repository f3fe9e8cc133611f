"""How a rank and the harness talk: JSON in frames with a length before them, on pipes that nothing else uses."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass, field
from typing import Any

LARGEST_FRAME = 16 * 2**20
_LENGTH = struct.Struct("!I")


class GarbledChannelError(Exception):
    """What came over the pipe was not written by the harness's own code."""


@dataclass(frozen=True)
class Message:
    """One frame: what is said, and the facts that go with it."""

    say: str
    body: Any = None


def frame(message: Message) -> bytes:
    """The bytes of a message; raises ValueError when a float is not finite."""
    payload = json.dumps({"say": message.say, "body": message.body}, allow_nan=False).encode()
    return _LENGTH.pack(len(payload)) + payload


def send(fd: int, message: Message) -> None:
    """Write a message whole; blocks while the pipe is full."""
    rest = memoryview(frame(message))
    while rest:
        rest = rest[os.write(fd, rest) :]


def receive(fd: int) -> Message | None:
    """Wait for one message; None when the other side is gone."""
    head = _exactly(fd, _LENGTH.size)
    if head is None:
        return None
    payload = _exactly(fd, _LENGTH.unpack(head)[0])
    return None if payload is None else _message(payload)


@dataclass
class Inbox:
    """The harness's end: bytes as they come, without ever waiting for a frame to be complete."""

    buffer: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes) -> list[Message]:
        """Add bytes; return the messages that they complete. Raises GarbledChannelError."""
        self.buffer += data
        messages = []
        while len(self.buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self.buffer)
            if length > LARGEST_FRAME:
                raise GarbledChannelError(f"a frame of {length} bytes")
            if len(self.buffer) < _LENGTH.size + length:
                break
            messages.append(_message(bytes(self.buffer[_LENGTH.size : _LENGTH.size + length])))
            del self.buffer[: _LENGTH.size + length]
        return messages


def _message(payload: bytes) -> Message:
    try:
        decoded = json.loads(payload, parse_constant=_refused)
        # A lone surrogate can be read from JSON, and be stored nowhere.
        json.dumps(decoded, ensure_ascii=False).encode()
        message = Message(**decoded)
    except (ValueError, TypeError, RecursionError) as error:
        raise GarbledChannelError(f"{type(error).__name__}: {error}") from error
    if not isinstance(message.say, str):
        raise GarbledChannelError(f"a message that says {type(message.say).__name__}")
    return message


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _exactly(fd: int, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = os.read(fd, count - len(data))
        if not more:
            return None
        data += more
    return data
