//! Ratios of redis-session against Redis's own commands: server instructions, memory, wall clock.
//!
//! Wall times on a shared machine say little, so figures with limits are counted, not timed: instructions under callgrind and
//! bytes of `used_memory` are reproducible. See [`instructions`] and [`memory`] for how each is measured.
//! `scripts/bench` builds the module and runs this.

mod agents;
mod bodies;
mod client;
mod conversations;
mod events;
mod instructions;
mod memory;
mod migrate;
mod report;
mod resp;
mod server;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "\
redis-session-benches instructions [--check] [--quick] [--only TEXT] [--repeat N] [--no-module]
redis-session-benches memory [--check] [--copies N] [--generated]
redis-session-benches events [--only TEXT]
redis-session-benches agents [--seconds N] [--every MS]
redis-session-benches throughput
redis-session-benches migrate
redis-session-benches client [--check]

  --check      exit with 1 if a figure exceeds its limit
  --quick      leave out the session of a million messages
  --only TEXT  only the rows whose name contains TEXT
  --repeat N   number of runs of each row, of which the minimum counts (3)
  --no-module  only Redis's own commands
  --copies N   store the conversations N times, under different keys
  --seconds N  how long each half lasts (60)
  --every MS   how often each agent adds an event (500; 0: after each reply)
  --generated  use generated conversations even if recorded ones are available

Environment: SERVER_BIN (default redis-server), MODULE_PATH (default libredis_session.so beside this program),
CLI_PATH (default redis-session beside this program).";

/// The options from the command line and the environment.
pub struct Options {
    /// The server's program, with arguments that come before all others if it needs some.
    pub server: Vec<String>,
    /// `None` measures Redis's own commands only.
    pub module: Option<PathBuf>,
    pub check: bool,
    pub quick: bool,
    pub only: Option<String>,
    pub repeat: usize,
    pub copies: usize,
    pub generated: bool,
    pub seconds: u64,
    pub every_ms: u64,
}

fn main() -> ExitCode {
    match run() {
        Ok(within_limits) if within_limits => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the benchmarks; returns false if a checked figure exceeds its limit.
fn run() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let Some(subcommand) = arguments.next() else {
        return Err(USAGE.into());
    };
    let mut options = Options {
        server: std::env::var("SERVER_BIN")
            .unwrap_or_else(|_| "redis-server".to_owned())
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        module: Some(module_path()?),
        check: false,
        quick: false,
        only: None,
        repeat: 3,
        copies: 1,
        generated: false,
        seconds: 60,
        every_ms: 500,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => options.check = true,
            "--generated" => options.generated = true,
            "--quick" => options.quick = true,
            "--no-module" => options.module = None,
            "--only" => options.only = Some(arguments.next().ok_or(USAGE)?),
            "--repeat" => options.repeat = positive(arguments.next())?,
            "--seconds" => options.seconds = positive(arguments.next())? as u64,
            "--every" => options.every_ms = arguments.next().and_then(|ms| ms.parse().ok()).ok_or(USAGE)?,
            "--copies" => options.copies = positive(arguments.next())?,
            _ => return Err(USAGE.into()),
        }
    }
    if let Some(module) = &options.module {
        if !module.exists() {
            return Err(format!(
                "there is no module at {}: build it, or set MODULE_PATH",
                module.display()
            )
            .into());
        }
    }
    // A copy, so that building meanwhile neither replaces the file under a running server nor mixes two builds in one table.
    let copies = server::Folder::new()?;
    if let Some(module) = &mut options.module {
        let copy = copies.path().join("module.so");
        std::fs::copy(&*module, &copy)?;
        *module = copy;
    }
    let limits = match subcommand.as_str() {
        "instructions" => instructions::run(&options)?,
        "memory" => memory::run(&options)?,
        "client" => client::run(&options)?,
        "agents" => agents::run(&options).map(|()| Vec::new())?,
        "events" => events::run(&options).map(|()| Vec::new())?,
        "migrate" => migrate::run(&options).map(|()| Vec::new())?,
        "throughput" => throughput::run(&options).map(|()| Vec::new())?,
        _ => return Err(USAGE.into()),
    };
    let all_hold = report::print_limits(&limits);
    Ok(all_hold || !options.check)
}

fn positive(argument: Option<String>) -> Result<usize> {
    argument
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| USAGE.into())
}

fn module_path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("MODULE_PATH") {
        return Ok(std::fs::canonicalize(&path).unwrap_or_else(|_| path.into()));
    }
    let name = if cfg!(target_os = "macos") {
        "libredis_session.dylib"
    } else {
        "libredis_session.so"
    };
    Ok(std::env::current_exe()?.with_file_name(name))
}
