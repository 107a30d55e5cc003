"""A program that runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from .output import print_line, report


class RunningProcess:
    """A program that runs in a session of its own, so that a Ctrl-C in the terminal reaches it once: from here.

    `timeouts` [s]: after SIGINT until SIGTERM, and after SIGTERM until SIGKILL.
    """

    def __init__(
        self,
        *,
        name: str,
        cmd: list[str],
        cwd: str | None,
        env: dict[str, str],
        shows_output: bool,
        timeouts: tuple[float, float],
    ) -> None:
        self.name = name
        self.cmd = cmd
        self._cwd = cwd
        self._env = env
        self._shows_output = shows_output
        self._timeouts = timeouts
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> int:
        """Start the program and return its process id; OSError if it cannot be started."""
        self._process = await asyncio.create_subprocess_exec(
            *self.cmd,
            cwd=self._cwd,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return self._process.pid

    async def wait(self) -> int:
        """Print the program's lines until it ends and return its exit code, negative for a signal."""
        assert self._process is not None and self._process.stdout is not None and self._process.stderr is not None
        readers = [
            asyncio.create_task(self._copy_lines(self._process.stdout, self._shows_output)),
            asyncio.create_task(self._copy_lines(self._process.stderr, True)),
        ]
        returncode = await self._process.wait()
        # A grandchild may hold the pipes open: what has been written by now is still read, no more is waited for.
        await asyncio.wait(readers, timeout=1.0)
        for reader in readers:
            reader.cancel()
        return returncode

    async def _copy_lines(self, stream: asyncio.StreamReader, shown: bool) -> None:
        rest = b""
        while chunk := await stream.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._print(line, shown)
        if rest:
            self._print(rest, shown)

    def _print(self, line: bytes, shown: bool) -> None:
        if shown:
            print_line(self.name, line.decode(errors="replace"))

    async def stop(self) -> None:
        """Ask with SIGINT, then with SIGTERM, then end it with SIGKILL, each once and only if it still runs."""
        self._send(signal.SIGINT)
        for seconds, number, last in (
            (self._timeouts[0], signal.SIGTERM, "SIGINT"),
            (self._timeouts[1], signal.SIGKILL, "SIGTERM"),
        ):
            await asyncio.sleep(seconds)
            report(
                "ERROR",
                self.name,
                f"process[{self.name}] failed to terminate '{seconds:g}' seconds after receiving '{last}', "
                f"escalating to '{number.name}'",
            )
            self._send(number)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        report("INFO", self.name, f"sending signal '{number.name}' to process[{self.name}]")
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
