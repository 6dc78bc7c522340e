//! A command with a pipe to and from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use super::{ExternalError, ExternalSpec};
use crate::task_file::LINE_LIMIT;

/// Lines that are read ahead.
const READ_AHEAD: usize = 64;

/// A command that is kept running, and started anew a limited number of times.
#[derive(Debug)]
pub(super) struct Kept {
    spec: ExternalSpec,
    restarts_left: u32,
    process: Option<Process>,
}

impl Kept {
    pub(super) fn start(spec: &ExternalSpec) -> Result<Self, ExternalError> {
        let process = Some(Process::start(spec)?);
        Ok(Self { spec: spec.clone(), restarts_left: spec.restarts, process })
    }

    /// Sends bytes to the command, which is started anew if it was killed and may be.
    pub(super) fn send(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        if self.process.is_none() {
            if self.restarts_left == 0 {
                return Err("it ended or was killed too often; see its standard error".to_owned());
            }
            self.restarts_left -= 1;
            self.process = Some(Process::start(&self.spec).map_err(|error| error.to_string())?);
        }
        if let Some(process) = &self.process {
            process.send(bytes);
        }
        Ok(())
    }

    /// The next event, waiting at most until `until`; the end where no command runs.
    pub(super) fn receive(&self, until: Instant) -> Event {
        self.process.as_ref().map_or(Event::End, |process| process.receive(until))
    }

    pub(super) fn kill(&mut self) {
        self.process = None;
    }
}

/// A running command. It is killed with its process group when this is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    to: Sender<Vec<u8>>,
    from: Receiver<Event>,
}

/// What comes from a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line longer than [`LINE_LIMIT`].
    TooLong,
    /// The end of its output.
    End,
    /// Nothing in time.
    Timeout,
}

impl Process {
    fn start(spec: &ExternalSpec) -> Result<Self, ExternalError> {
        let [program, arguments @ ..] = &spec.command[..] else { return Err(ExternalError::NoCommand) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(&spec.env);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let error = |source| ExternalError::Start { program: program.clone(), source };
        let mut child = command.spawn().map_err(error)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else {
            // Both were asked for, so that both are there.
            return Err(error(std::io::Error::other("no pipes")));
        };
        let (to, requests) = channel();
        let (lines, from) = sync_channel(READ_AHEAD);
        // From here on it is killed when something goes wrong.
        let process = Self { child, to, from };
        super::limits::set(process.child.id(), spec)?;
        std::thread::Builder::new()
            .name("grader-write".to_owned())
            .spawn(|| write(stdin, requests))
            .map_err(error)?;
        std::thread::Builder::new()
            .name("grader-read".to_owned())
            .spawn(|| read(stdout, lines))
            .map_err(error)?;
        Ok(process)
    }

    /// Has the writing thread send bytes.
    fn send(&self, bytes: Vec<u8>) {
        // A command that no longer reads has no writing thread; then no answer will come either,
        // which is noticed where answers are read.
        let _ = self.to.send(bytes);
    }

    /// The next event, waiting at most until `until`.
    fn receive(&self, until: Instant) -> Event {
        match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::Timeout,
            Err(RecvTimeoutError::Disconnected) => Event::End,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group before the child is waited for: until then its number cannot be another's.
        #[cfg(unix)]
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes what is to be sent, until there is no one to send or to read.
fn write(mut stdin: ChildStdin, requests: Receiver<Vec<u8>>) {
    for bytes in requests {
        if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads lines until the end, a line that is too long, or until no one wants them.
fn read(stdout: ChildStdout, lines: SyncSender<Event>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let count = reader.by_ref().take(LINE_LIMIT as u64 + 2).read_until(b'\n', &mut line).unwrap_or(0);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let event = match count {
            0 => Event::End,
            _ if line.len() > LINE_LIMIT => Event::TooLong,
            _ => Event::Line(line),
        };
        let is_last = !matches!(event, Event::Line(_));
        if lines.send(event).is_err() || is_last {
            return;
        }
    }
}
