"""Who may come in: proofs of a shared token, TLS, and an end for peers that fall silent.

A connection begins with a greeting of fixed size. Each side proves that it has the token, by a
keyed digest (HMAC-SHA256) of two random numbers: the token itself is never sent. Until then nothing
that has come is read as a message. The guards use this module without Wend: it needs the standard
library alone.
"""

from __future__ import annotations

import hmac
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

__all__ = ["Door", "RefusedError", "SecureLink", "TlsFiles", "enter", "greet", "join", "key_of"]

#: The variable of the secret that a user shares between machines.
SECRET: Final = "WEND_TOKEN"
#: The variable of the token of a run's ranks, which goes before the secret.
TOKEN: Final = "WEND_STORE_TOKEN"
#: Letters of such a secret, at least: who listens could else try all short ones.
SHORTEST: Final = 16
GREETING_SECONDS: Final = 10.0
_MAGIC: Final = b"WENDSTO1"
_NONCE: Final = 16  # bytes
_DIGEST: Final = 32
_MOST_STRANGERS: Final = 64  # connections that have not greeted yet
_RECORDS: Final = 1 << 15  # bytes that are decrypted at a time
_SENT: Final = 1 << 20  # bytes that are encrypted at a time
_TLS: Final = ("WEND_TLS_CERT", "WEND_TLS_KEY", "WEND_TLS_CA")
# A peer whose machine is lost is noticed within 15 to 20 seconds.
_IDLE, _EACH, _TIMES, _UNHEARD = 5, 5, 3, 20_000


class RefusedError(ConnectionError):
    """The peer has another token, another certificate, or is something else."""


# -- tokens ------------------------------------------------------------------------------------


def own_token() -> bytes:
    """The token that this process has; empty for none."""
    return (os.environ.get(TOKEN) or os.environ.get(SECRET, "")).encode()


def key_of(token: bytes, purpose: str) -> bytes:
    """The token for a purpose: proofs for different purposes do not fit each other."""
    return hmac.digest(token, purpose.encode(), "sha256").hex().encode()


def proof(token: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    """The bytes that only a process with the token can say."""
    return hmac.digest(token, side + first + second, "sha256") if token else bytes(_DIGEST)


def greet(link: Any, token: bytes, seconds: float = GREETING_SECONDS) -> bool:
    """Greet a process that has connected; whether it has the same token, or neither has one.

    Raises OSError.
    """
    until = time.monotonic() + seconds
    own = secrets.token_bytes(_NONCE)
    link.sendall(_MAGIC + bytes([bool(token)]) + own)
    answer = receive_exactly(link, 1 + _NONCE + _DIGEST, until)
    theirs, shown = answer[1 : 1 + _NONCE], answer[1 + _NONCE :]
    wanted = proof(token, b"joins", own, theirs)
    fits = answer[0] == bool(token) and hmac.compare_digest(shown, wanted)
    link.sendall(bytes([fits]) + (proof(token, b"keeps", own, theirs) if fits else bytes(_DIGEST)))
    return fits


def join(link: Any, token: bytes, name: str, seconds: float = GREETING_SECONDS) -> str:
    """Greet the process that listens; returns why the two do not fit, or an empty text.

    name: of the variable with the token   Raises OSError.
    """
    until = time.monotonic() + seconds
    head = receive_exactly(link, len(_MAGIC) + 1 + _NONCE, until)
    if not head.startswith(_MAGIC):
        return "is no store of Wend's"
    asks, theirs = bool(head[len(_MAGIC)]), head[-_NONCE:]
    own = secrets.token_bytes(_NONCE)
    link.sendall(bytes([bool(token)]) + own + proof(token, b"joins", theirs, own))
    answer = receive_exactly(link, 1 + _DIGEST, until)
    if asks and not token:
        return f"asks for a token, and this process has none; set {name} alike in all processes"
    if token and not asks:
        return f"has no token, and this process has one; set {name} alike in all processes"
    wanted = proof(token, b"keeps", theirs, own)
    if not answer[0] or not hmac.compare_digest(answer[1:], wanted):
        return f"has another token; set {name} alike in all processes"
    return ""


def receive_exactly(link: Any, count: int, until: float | None = None) -> bytes:
    """So many bytes. Raises ConnectionError at the end of the connection.

    until: time.monotonic() at which a wait ends with TimeoutError
    """
    parts, left = [], count
    while left:
        if until is not None:
            link.settimeout(_left(until))
        part = link.recv(min(left, 1 << 20))
        if not part:
            raise ConnectionError("the connection has ended")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _left(until: float) -> float:
    rest = until - time.monotonic()
    if rest <= 0:
        raise TimeoutError("timed out")
    return rest


# -- TLS ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TlsFiles:
    """Files of a certificate, the key, and the certificates that sign those of all peers."""

    cert: str
    key: str
    ca: str

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> TlsFiles | None:
        """The files that variables name, or None."""
        cert, key, ca = (variables.get(name, "") for name in _TLS)
        return cls(cert, key or cert, ca or cert) if cert else None

    def variables(self) -> dict[str, str]:
        """The variables that name the files."""
        return dict(zip(_TLS, (self.cert, self.key, self.ca), strict=True))

    def context(self, listens: bool) -> ssl.SSLContext:
        """Both sides show a certificate, which the CA has signed. Raises OSError."""
        import ssl

        kind = ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(kind)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Peers are told by address: a certificate of the run's CA is the identity.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.cert, self.key)
        context.load_verify_locations(self.ca)
        return context


class SecureLink:
    """A socket with TLS, which a thread may read while another thread writes.

    `ssl.SSLSocket` permits a single thread at a time, and a reader waits inside. Here the record
    layer works in memory, behind a lock that is never held while the network is waited for.
    Raises OSError (ssl.SSLError) if the peer's certificate does not fit.
    """

    def __init__(self, end: socket.socket, files: TlsFiles, listens: bool, seconds: float) -> None:
        import ssl

        self.end = end
        self._wait, self._over = ssl.SSLWantReadError, (ssl.SSLEOFError, ssl.SSLZeroReturnError)
        self._come, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = files.context(listens)
        self._records = context.wrap_bio(self._come, self._going, server_side=listens)
        self._fill: Any = self._records.read  # of a count and memory: the count
        self._lock, self._sending = threading.Lock(), threading.Lock()
        until = time.monotonic() + seconds
        while True:
            try:
                self._records.do_handshake()
            except self._wait:
                end.sendall(self._going.read())
                end.settimeout(_left(until))
                if not self._take_in():
                    raise ConnectionError("the connection has ended") from None
                continue
            except ssl.SSLError:
                end.sendall(self._going.read())  # the alert, which tells the peer
                raise
            end.sendall(self._going.read())
            return

    def _take_in(self) -> bool:
        """Wait for bytes of the network; False at the end."""
        data = self.end.recv(_RECORDS)
        with self._lock:
            if data:
                self._come.write(data)
            else:
                self._come.write_eof()
        return bool(data)

    def sendall(self, data: Any) -> None:
        """Send bytes."""
        view = memoryview(data).cast("B")
        with self._sending:
            for k in range(0, len(view), _SENT):
                with self._lock:
                    self._records.write(view[k : k + _SENT])
                    sealed = self._going.read()
                self.end.sendall(sealed)

    def recv(self, count: int) -> bytes:
        """All bytes that have come, up to a count; waits if there are none."""
        data = bytearray(count)
        return bytes(data[: self.recv_into(memoryview(data))])

    def recv_into(self, view: memoryview) -> int:
        """Fill memory with bytes that have come; waits if there are none. 0 at the end."""
        place = 0
        while place < len(view):
            try:
                with self._lock:
                    count = self._fill(len(view) - place, view[place:])
            except self._wait:  # all that has come is read: return, or wait for more
                if place:
                    return place
                self._take_in()
                continue
            except self._over:  # the peer has ended: the bytes before are the last
                return place
            if not count:
                return place
            place += count
        return place

    def settimeout(self, seconds: float | None) -> None:
        """See socket.settimeout."""
        self.end.settimeout(seconds)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """See socket.setsockopt."""
        self.end.setsockopt(level, option, value)

    def fileno(self) -> int:
        """See socket.fileno."""
        return self.end.fileno()

    def getsockname(self) -> Any:
        """See socket.getsockname."""
        return self.end.getsockname()

    def shutdown(self, how: int) -> None:
        """See socket.shutdown."""
        self.end.shutdown(how)

    def close(self) -> None:
        """See socket.close."""
        self.end.close()

    def __enter__(self) -> SecureLink:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def socket_of(link: Any) -> socket.socket:
    """The socket below a link."""
    end: socket.socket = link.end if isinstance(link, SecureLink) else link
    return end


# -- connections -------------------------------------------------------------------------------


def watch_peer(link: Any, strict: bool) -> None:
    """Let the kernel end a connection whose peer's machine does not answer any more.

    strict: also where bytes are under way; a peer that reads nothing for long is then lost, too
    """
    end = socket_of(link)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _EACH), ("TCP_KEEPCNT", _TIMES)):
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if strict and hasattr(socket, "TCP_USER_TIMEOUT"):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD)


def let_in(end: socket.socket, token: bytes, tls: TlsFiles | None) -> Any | None:
    """A link with who has connected; None, and an end of the connection, for a stranger."""
    try:
        end.settimeout(GREETING_SECONDS)
        link = end if tls is None else SecureLink(end, tls, True, GREETING_SECONDS)
        if greet(link, token):
            link.settimeout(None)
            return link
    except OSError:  # a stranger, or a peer that has ended: the connection is closed
        pass  # the peer is told by the end of the connection
    end.close()
    return None


def enter(
    address: tuple[str, int], token: bytes, tls: TlsFiles | None, name: str, seconds: float
) -> Any:
    """A link with who listens at an address; both have proved the token.

    name: of the variable with the token, for errors
    Raises RefusedError for a listener that does not fit, and OSError if nobody answers.
    """
    end = socket.create_connection(address, seconds)
    place = f"the process at {address[0]}:{address[1]}"
    try:
        link = end if tls is None else SecureLink(end, tls, False, GREETING_SECONDS)
        fault = join(link, token, name, max(1.0, min(seconds, GREETING_SECONDS)))
    except TimeoutError as error:
        end.close()
        raise TimeoutError(
            f"{place} does not greet in time: it is busy, or something else, or has TLS "
            f"{'on there' if tls is None else 'off there'}, unlike here"
        ) from error
    except OSError as error:
        end.close()
        if tls is None or not hasattr(error, "reason"):
            raise
        # ssl.SSLError: the certificates do not fit, or the listener has no TLS
        words = getattr(error, "verify_message", "") or error.reason
        raise RefusedError(
            f"{place} does not agree on TLS: {words}; use certificates of one CA (here {tls.ca}) "
            "in all processes, or TLS in none"
        ) from error
    if fault:
        end.close()
        raise RefusedError(f"{place} {fault}")
    link.settimeout(None)
    return link


class Door:
    """Takes connections of a listener, and lets in who proves the token.

    Each stranger has a thread and some seconds, so nobody else waits. `fileno` is readable when
    somebody has come in.
    """

    def __init__(self, listener: socket.socket, token: bytes, tls: TlsFiles | None) -> None:
        self.listener, self.token, self.tls = listener, token, tls
        self.is_closed = False
        #: Addresses of those who were not let in.
        self.strangers: set[str] = set()
        self._guests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hears, self._bell = socket.socketpair()
        self._free = threading.Semaphore(_MOST_STRANGERS)
        threading.Thread(target=self._take, name="door", daemon=True).start()

    def fileno(self) -> int:
        """Readable when `guest` has somebody."""
        return self._hears.fileno()

    def guest(self) -> Any:
        """The next who has come in; waits for somebody. Raises OSError when the door is closed."""
        if not self._hears.recv(1):
            raise ConnectionError("the door is closed")
        return self._guests.get()

    def close(self) -> None:
        """Let nobody in any more; the listener is closed."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        except OSError:  # the listener has been closed already
            pass
        self.listener.close()
        self._hears.shutdown(socket.SHUT_RDWR)  # ends `guest`
        self._hears.close()
        self._bell.close()

    def _take(self) -> None:
        while not self.is_closed:
            try:
                end, address = self.listener.accept()
            except OSError:  # the listener is closed, or there are too many files for now
                time.sleep(0.01)
                continue
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._greet, args=(end, address[0]), daemon=True).start()
            else:
                end.close()  # a crowd of strangers: who belongs here tries again

    def _greet(self, end: socket.socket, address: str) -> None:
        try:
            link = let_in(end, self.token, self.tls)
        finally:
            self._free.release()
        if link is None:
            if len(self.strangers) < _MOST_STRANGERS:
                self.strangers.add(address)
            return
        self._guests.put(link)
        try:
            self._bell.send(b"!")
        except OSError:  # the door has been closed meanwhile
            link.close()
