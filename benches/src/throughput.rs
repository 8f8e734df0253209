//! Commands per second, pipelined. Wall time depends on the machine and what else it does: ratios to read, never to assert.

use crate::bodies::{session_key, Bodies};
use crate::report::{grouped, print_table};
use crate::resp::Pipeline;
use crate::server::Server;
use crate::{Options, Result};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

pub fn run(options: &Options) -> Result<()> {
    let Some(module) = options.module.as_deref() else {
        return Err("throughput needs the module".into());
    };
    let (list, session) = (session_key(1), session_key(2));
    let mut server = Server::start(&options.server, Some(module))?;
    let mut connection = server.connect()?;

    let mut setup = Pipeline::default();
    for number in 0..20 {
        setup.push(["RPUSH", &format!("{list}:20"), &Bodies::Varied.json(number)]);
        setup.push([
            "SESSION.APPEND",
            &format!("{session}:20"),
            "JSON",
            &Bodies::Varied.json(number),
        ]);
    }
    connection.send(&setup)?;

    let appends =
        |command: &dyn Fn(&str) -> Vec<String>| pipeline_of(50_000, &|number| command(&Bodies::Varied.json(number)));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let runs = [
        ("RPUSH + LTRIM", None, {
            let mut pipeline = Pipeline::default();
            for number in 0..50_000 {
                pipeline.push(["RPUSH", &list, &Bodies::Varied.json(number)]);
                pipeline.push(["LTRIM", &list, "-20", "-1"]);
            }
            (50_000, pipeline)
        }),
        (
            "SESSION.APPEND JSON, window 20",
            Some(0),
            (
                50_000,
                appends(&|body| vec!["SESSION.APPEND".into(), session.clone(), "JSON".into(), body.into()]),
            ),
        ),
        (
            "LRANGE of 20",
            None,
            (
                20_000,
                pipeline_of(20_000, &|_| words(&format!("LRANGE {list}:20 0 -1"))),
            ),
        ),
        (
            "SESSION.RANGE of 20",
            Some(2),
            (
                20_000,
                pipeline_of(20_000, &|_| words(&format!("SESSION.RANGE {session}:20 0 -1"))),
            ),
        ),
        (
            "SESSION.CONTEXT of 20",
            Some(2),
            (
                20_000,
                pipeline_of(20_000, &|_| words(&format!("SESSION.CONTEXT {session}:20"))),
            ),
        ),
        (
            "SESSION.GET of 20",
            Some(2),
            (
                20_000,
                pipeline_of(20_000, &|_| words(&format!("SESSION.GET {session}:20"))),
            ),
        ),
    ];

    // The best of several rounds, which alternate so that a busy moment does not affect one command only.
    let mut best = vec![Duration::MAX; runs.len()];
    for _ in 0..ROUNDS {
        for (index, (_, _, (_, pipeline))) in runs.iter().enumerate() {
            let began = Instant::now();
            connection.send(pipeline)?;
            best[index] = best[index].min(began.elapsed());
        }
    }

    let per_second = |index: usize| runs[index].2 .0 as f64 / best[index].as_secs_f64();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .enumerate()
        .map(|(index, (name, base, _))| {
            let ratio = base.map_or(String::new(), |base| {
                format!("{:.2} × {}", per_second(index) / per_second(base), runs[base].0)
            });
            vec![(*name).to_owned(), grouped(per_second(index) as u64), ratio]
        })
        .collect();
    println!("Operations per second, one pipelined client, best of {ROUNDS} rounds (not asserted)\n");
    print_table(&["command", "per second", "throughput"], &rows);
    Ok(())
}

fn pipeline_of(commands: usize, command: &dyn Fn(usize) -> Vec<String>) -> Pipeline {
    let mut pipeline = Pipeline::default();
    for number in 0..commands {
        pipeline.push(command(number));
    }
    pipeline
}
