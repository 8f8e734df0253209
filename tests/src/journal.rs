//! What a command propagated, read from the append-only file, which contains the replication stream.

use std::fs;
use std::path::PathBuf;

use crate::server::Server;
use crate::talk;

/// The arguments of a propagated command.
pub type Propagated = Vec<Vec<u8>>;

impl Server {
    /// Returns what the commands in `act` propagated (without the first `SELECT`). Needs [`crate::Options::append_only`], with which the
    /// file is written before a reply is sent.
    pub fn propagated_by(&self, act: impl FnOnce(&Server)) -> Vec<Propagated> {
        let before = self.journal().len();
        act(self);
        let after = self.journal();
        let mut commands = parse(&after[before..]);
        commands.retain(|command| !command[0].eq_ignore_ascii_case(b"SELECT"));
        commands
    }

    /// Like [`Server::propagated_by`], one command per line, as typed.
    pub fn propagated_lines(&self, act: impl FnOnce(&Server)) -> Vec<String> {
        self.propagated_by(act).iter().map(|command| line(command)).collect()
    }

    /// Adds a command, as typed, to the append-only file of a server that does not run.
    pub fn add_to_journal(&self, line: &str) {
        let words = talk::split(line);
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(&word);
            bytes.extend_from_slice(b"\r\n");
        }
        let mut all = self.journal();
        all.extend_from_slice(&bytes);
        fs::write(self.journal_path(), all).expect("the append-only file");
    }

    fn journal(&self) -> Vec<u8> {
        fs::read(self.journal_path()).expect("the append-only file")
    }

    fn journal_path(&self) -> PathBuf {
        let folder = self.file("appendonlydir");
        let entries = fs::read_dir(&folder).expect("an append-only server");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
        files.retain(|path| {
            path.extension().is_some_and(|ext| ext == "aof") && path.to_string_lossy().contains(".incr.")
        });
        assert_eq!(files.len(), 1, "one incremental file: {files:?}");
        files.remove(0)
    }
}

/// Formats a command as typed: quotes only where necessary.
pub fn line(command: &[Vec<u8>]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|arg| {
            let is_bare = !arg.is_empty()
                && arg
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-:+".contains(byte));
            if is_bare {
                String::from_utf8_lossy(arg).into_owned()
            } else {
                talk::quote(arg)
            }
        })
        .collect();
    words.join(" ")
}

/// Commands in the request form of the protocol.
pub fn parse(mut input: &[u8]) -> Vec<Propagated> {
    fn number(input: &mut &[u8], mark: u8) -> usize {
        assert_eq!(
            input.first(),
            Some(&mark),
            "at {:?}",
            String::from_utf8_lossy(&input[..input.len().min(80)])
        );
        let end = input
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .expect("a complete line");
        let digits = std::str::from_utf8(&input[1..end]).expect("digits");
        *input = &input[end + 2..];
        digits.parse().expect("a number")
    }
    let mut commands = Vec::new();
    while !input.is_empty() {
        let count = number(&mut input, b'*');
        let mut command = Propagated::new();
        for _ in 0..count {
            let len = number(&mut input, b'$');
            command.push(input[..len].to_vec());
            input = &input[len + 2..];
        }
        commands.push(command);
    }
    commands
}
