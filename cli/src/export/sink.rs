//! The output of an export: a file, which can be resumed, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Flags;
use crate::archive::Head;
use crate::failure::{Failure, Result};

const BUFFER_BYTES: usize = 1024 * 1024;

pub struct Sink {
    /// `None`: standard output.
    path: Option<PathBuf>,
    out: Counting,
    lines: u64,
}

/// Counts the bytes that are written.
struct Counting {
    out: BufWriter<Box<dyn Target>>,
    bytes: u64,
}

/// The file or stream behind the buffer.
trait Target: Write {
    /// Flushes it to its final place; a file is synced.
    fn settle(&mut self) -> io::Result<()>;
}

impl Target for File {
    fn settle(&mut self) -> io::Result<()> {
        match self.sync_all() {
            // A pipe or a device has nothing to settle.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
}

impl Target for io::Stdout {
    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Replaces DEL and C1 control characters, which some terminals obey, in JSON that is printed. They occur in strings only, where an escape
/// means the same. JSON has the other control characters escaped already.
struct Harmless<W> {
    out: W,
    /// A byte 0xc2 is held back: it begins a C1 control character or another one.
    is_c2_held: bool,
}

impl<W> Harmless<W> {
    fn on(out: W) -> Harmless<W> {
        Harmless { out, is_c2_held: false }
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let is_c2_held = std::mem::take(&mut self.is_c2_held);
            if is_c2_held && !matches!(byte, 0x80..=0x9f) {
                text.push(0xc2);
            }
            match byte {
                0x80..=0x9f if is_c2_held => write!(text, "\\u{byte:04x}")?,
                0x7f => write!(text, "\\u{byte:04x}")?,
                0xc2 => self.is_c2_held = true,
                _ => text.push(*byte),
            }
        }
        self.out.write_all(&text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Target for Harmless<W> {
    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Sink {
    /// Opens the output, and calls `is_done` with each key that a resumed file contains.
    pub fn open(flags: &Flags, is_done: &mut dyn FnMut(&[u8])) -> Result<Sink> {
        let path = (flags.output != Path::new("-")).then(|| flags.output.clone());
        let target: Box<dyn Target> = match &path {
            None if flags.resume => return Err(Failure::Usage("--resume needs a file: -o FILE".into())),
            None if io::stdout().is_terminal() => Box::new(Harmless::on(io::stdout())),
            None => Box::new(io::stdout()),
            Some(path) if flags.resume => Box::new(resume(path, is_done)?),
            Some(path) => Box::new(create(path, flags.overwrite)?),
        };
        Ok(Sink {
            path,
            out: Counting {
                out: BufWriter::with_capacity(BUFFER_BYTES, target),
                bytes: 0,
            },
            lines: 0,
        })
    }

    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    pub fn line_is_done(&mut self) -> Result<()> {
        // Who reads along on standard output is not kept waiting for a megabyte.
        if self.path.is_none() && self.lines < 100 {
            self.out.flush().map_err(|error| self.failure(&error))?;
        }
        self.lines += 1;
        Ok(())
    }

    pub fn finish(&mut self) -> Result<()> {
        let done = self.out.flush().and_then(|()| self.out.out.get_mut().settle());
        done.map_err(|error| self.failure(&error))
    }

    pub fn written_bytes(&self) -> u64 {
        self.out.bytes
    }

    pub fn can_be_resumed(&self) -> bool {
        self.path.is_some()
    }

    pub fn failure(&self, error: &io::Error) -> Failure {
        let lines = self.lines;
        Failure::Output(match &self.path {
            Some(path) => format!(
                "cannot write to {}: {error}\nMake room, or go on elsewhere: what is there is whole lines but the last, and --resume goes on.",
                path.display()
            ),
            None if error.kind() == ErrorKind::BrokenPipe => {
                format!("standard output was closed after {lines} values: the export is not complete.")
            }
            None => format!("cannot write to standard output after {lines} values: {error}"),
        })
    }
}

fn create(path: &Path, is_overwritten: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    // A pipe or a device cannot be overwritten.
    let is_special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    match is_overwritten || is_special {
        true => options.truncate(!is_special),
        false => options.create_new(true),
    };
    options.open(path).map_err(|error| {
        let path = path.display();
        Failure::Usage(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("{path} is there already: --resume goes on with it, --overwrite begins anew")
            }
            _ => format!("cannot write to {path}: {error}"),
        })
    })
}

/// Opens the file for appending after its last whole line.
fn resume(path: &Path, is_done: &mut dyn FnMut(&[u8])) -> Result<File> {
    let unusable = |error: io::Error| Failure::Usage(format!("cannot go on with {}: {error}", path.display()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(unusable)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, &file);
    let (mut line, mut number, mut end) = (Vec::new(), 0u64, 0u64);
    loop {
        line.clear();
        let read = reader.by_ref().read_until(b'\n', &mut line).map_err(unusable)?;
        if !line.ends_with(b"\n") {
            // The end, or a line that was cut off, which is written anew.
            break;
        }
        number += 1;
        let key = serde_json::from_slice::<Head>(&line).map_err(|error| error.to_string());
        match key.and_then(|head| head.key()) {
            Ok(key) => is_done(&key),
            Err(why) => {
                return Err(Failure::Usage(format!(
                    "cannot go on with {}: line {number} is not of an export ({why})\n--overwrite begins anew.",
                    path.display()
                )))
            }
        }
        end += read as u64;
    }
    file.set_len(end).map_err(unusable)?;
    file.seek(SeekFrom::End(0)).map_err(unusable)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_same_json_without_controls() {
        let json = "{\"a\":\"\u{9b}2J\u{7f}é\u{80}£日\u{c2}\"}";
        for bytes_at_once in [1, 2, 3, 100] {
            let mut harmless = Harmless::on(Vec::new());
            for bytes in json.as_bytes().chunks(bytes_at_once) {
                harmless.write_all(bytes).unwrap();
            }
            let text = String::from_utf8(harmless.out).unwrap();
            assert!(text.chars().all(|char| !char.is_control()), "{text:?}");
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(parse(json), parse(&text));
        }
    }
}
