//! `redis-session top`: rates and sizes of one or all servers, live.
//!
//! ```text
//!  a thread: INFO of every primary, every -i seconds ─> sample.rs ─> rates ─┬─> view.rs ─> screen.rs   on a terminal
//!                                                                          ├─> view.rs ─> text         in a pipe, --once
//!                                                                          └─> sample.rs ─> JSON       --json
//! ```
//!
//! Servers are asked in a thread of its own, so that keys work while one does not answer.

mod sample;
mod screen;
mod view;

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use clap::Args;

use crate::connection::{self, Router};
use crate::failure::{Failure, Result};
use crate::stop;
use crate::term::color::{Paint, When};
use crate::term::output;
use crate::Outcome;
use sample::{Rates, Sample};
use screen::{Key, Screen};

/// How often to check for keys and signals.
const TICK: Duration = Duration::from_millis(50);

/// Number of samples whose rates are kept for the sparklines.
const HISTORY: usize = 120;

#[derive(Args, Debug)]
#[command(after_help = "\
q or Ctrl-C ends it. Rates are per second since the last sample; of a cluster (-c) there is a line for each primary.\n\
redis-session top --once            one sample as text, after one interval\n\
redis-session top --json -i 10      one JSON object every ten seconds, for whatever collects such things")]
pub struct Flags {
    /// Seconds between two samples
    #[arg(short = 'i', long = "interval", value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// One sample, as text
    #[arg(long)]
    once: bool,
    /// One JSON object a sample
    #[arg(long)]
    json: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    color: When,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400".into()),
    }
}

/// The latest sample, and the rates since those before.
pub struct State {
    pub interval: Duration,
    pub sample: Sample,
    /// Since the previous sample; `None` for the first.
    pub rates: Option<Rates>,
    /// Rates of all nodes together, the newest last.
    pub history: VecDeque<Rates>,
}

impl State {
    fn take(&mut self, sample: Sample) {
        self.rates = Some(Rates::between(&self.sample, &sample));
        self.sample = sample;
        if let Some(rates) = &self.rates {
            self.history.push_back(rates.clone());
        }
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    let first = Sample::take(&mut router)?;
    if let Some(why) = first.failure() {
        return Err(Failure::Server(why));
    }
    stop::watch_silently()?;
    let interval = Duration::from_secs_f64(flags.interval);
    let samples = sample_in_background(router, interval);
    let state = State {
        interval,
        sample: first,
        rates: None,
        history: VecDeque::new(),
    };
    let paint = Paint {
        is_on: flags.color.is_on(),
    };
    match !flags.json && !flags.once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        true => on_screen(state, &samples, paint),
        false => in_lines(state, &samples, flags, paint),
    }
}

/// Takes samples in a thread, which ends with its receiver or with the program.
fn sample_in_background(mut router: Router, interval: Duration) -> Receiver<Result<Sample>> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || loop {
        std::thread::sleep(interval);
        if sender.send(Sample::take(&mut router)).is_err() {
            break;
        }
    });
    receiver
}

fn in_lines(mut state: State, samples: &Receiver<Result<Sample>>, flags: &Flags, paint: Paint) -> Result<Outcome> {
    loop {
        state.take(match wait(samples, stop::is_requested)? {
            Some(sample) => sample?,
            None => return Ok(Outcome::Interrupted),
        });
        if flags.json {
            output::print(&format!("{}\n", state.json()));
        } else {
            let lines = view::lines(&state, paint, crate::term::columns(None));
            output::print(&(lines.join("\n") + if flags.once { "\n" } else { "\n\n" }));
        }
        if flags.once || output::is_closed() {
            return Ok(Outcome::Fine);
        }
    }
}

fn on_screen(mut state: State, samples: &Receiver<Result<Sample>>, paint: Paint) -> Result<Outcome> {
    let mut screen = Screen::open()?;
    loop {
        screen.draw(|columns| view::lines(&state, paint, columns))?;
        let mut pressed = None;
        let sample = wait(samples, || {
            pressed = screen::key();
            stop::is_requested() || pressed.is_some()
        })?;
        match (pressed, sample) {
            (Some(Key::Quit), _) => return Ok(Outcome::Fine),
            (Some(Key::Interrupt), _) => return Ok(Outcome::Interrupted),
            (_, Some(sample)) => state.take(sample?),
            (None, None) => return Ok(Outcome::Interrupted),
            // The terminal's size: draw anew.
            (Some(Key::Resize), None) => {}
        }
    }
}

/// Waits for the next sample; `None` if `is_enough` says to stop waiting.
fn wait(samples: &Receiver<Result<Sample>>, mut is_enough: impl FnMut() -> bool) -> Result<Option<Result<Sample>>> {
    loop {
        match samples.recv_timeout(TICK) {
            Ok(sample) => return Ok(Some(sample)),
            Err(RecvTimeoutError::Timeout) if is_enough() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Server("the servers are no longer asked: start again".into()))
            }
        }
    }
}
