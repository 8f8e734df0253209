//! A server that says what a test wants: a listener that reads commands and answers them from a function.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is done with a command.
pub enum Answer {
    /// These bytes.
    Say(Vec<u8>),
    /// Nothing, for ever.
    Silence,
    /// The connection is closed.
    HangUp,
}

impl Answer {
    pub fn say(resp: &str) -> Answer {
        Answer::Say(resp.as_bytes().to_vec())
    }
}

/// Listens until the test's process ends.
pub struct Fake {
    pub port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// `answer` is asked for each `SESSION.*` command; what clients send to introduce themselves is answered with `OK`, and `CLUSTER SLOTS`
    /// as by a cluster of this node alone.
    pub fn start(answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (answer, known) = (Arc::new(answer), Arc::clone(&heard));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, heard) = (Arc::clone(&answer), Arc::clone(&known));
                std::thread::spawn(move || serve(&stream, port, answer.as_ref(), &heard));
            }
        });
        Fake { port, heard }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How often a command was heard.
    pub fn heard(&self, name: &str) -> usize {
        let heard = self.heard.lock().expect("nobody panics with it");
        heard.iter().filter(|heard| *heard == name).count()
    }
}

fn serve(stream: &TcpStream, port: u16, answer: &dyn Fn(&[String]) -> Answer, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(command) = command(&mut reader) {
        let name = command[0].to_uppercase();
        let answer = match name.as_str() {
            "PING" => Answer::say("+PONG\r\n"),
            "CLUSTER" => {
                Answer::Say(format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n").into_bytes())
            }
            name if name.starts_with("SESSION.") => {
                heard.lock().expect("nobody panics with it").push(name.to_owned());
                answer(&command)
            }
            _ => Answer::say("+OK\r\n"),
        };
        match answer {
            Answer::Say(bytes) if writer.write_all(&bytes).is_ok() => {}
            Answer::Silence => {}
            _ => break,
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// One array of bulk strings.
fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(reader, '*')?;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; number(reader, '$')? + 2];
            reader.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Some(String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect()
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(sign)?.parse().ok()
}
