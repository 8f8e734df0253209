//! Measures the reader of message bodies against one that serde derives: both read the same bodies and find the same facts.
//!
//! ```text
//! cargo run --release -p redis-session-core --example read_bodies
//! valgrind --tool=callgrind target/release/examples/read_bodies core 10000       # or: derive; or: core 10000 0, the first body only
//! ```
//!
//! Without arguments it prints the time that both take. Under callgrind, what a greater number of rounds takes more is the instructions of
//! the rounds between.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use redis_session_core::message;
use serde::de::IgnoredAny;
use serde::Deserialize;

/// Bodies as agents write them: of 64 to 420 bytes.
const BODIES: [&str; 6] = [
    r#"{"role":"user","content":"Could you check seat 14C for me too?"}"#,
    r#"{"role":"user","content":"I would like to change my reservation for two passengers to Friday morning, and could you please confirm that it is still possible without a fee because the policy says economy?","timestamp":"2026-01-14T10:00:00.000Z"}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_9yMDgkBlPz0eEnPVsXv3kq0S","type":"function","function":{"name":"get_reservation_details","arguments":"{\"reservation_id\":\"EHGLP3\"}"}}]}"#,
    r#"{"role":"tool","tool_call_id":"call_9yMDgkBlPz0eEnPVsXv3kq0S","name":"get_reservation_details","content":"{\"reservation_id\": \"EHGLP3\", \"user_id\": \"emma_kim_9957\", \"origin\": \"PHX\", \"destination\": \"JFK\", \"flight_type\": \"one_way\", \"cabin\": \"basic_economy\", \"passengers\": [{\"first_name\": \"Emma\", \"last_name\": \"Kim\", \"dob\": \"1957-04-28\"}], \"total_baggages\": 0, \"insurance\": \"no\"}"}"#,
    r#"{"role":"assistant","content":"Your reservation EHGLP3 is in basic economy, which cannot be changed. I can cancel it within 24 hours of the booking, or move you to another cabin.\n\nWhich would you like?","token_count":41}"#,
    r#"{"role":"user","content":"Then please cancel it.","entity_refs":["reservation:EHGLP3","user:emma_kim_9957"],"timestamp":1768384800}"#,
];

/// The members that `message::read` looks at, as a derived reader has them. Of members given twice it refuses the body.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    timestamp: Option<Time<'a>>,
    #[serde(borrow, default)]
    created_at: Option<Time<'a>>,
    #[serde(default)]
    token_count: Option<u32>,
    #[serde(borrow, default)]
    tool_calls: Vec<Call<'a>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    entity_refs: Vec<Cow<'a, str>>,
    #[serde(default, rename = "content")]
    _content: IgnoredAny,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Time<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(f64),
}

/// How many ids there are and when it was: something that all of the reading has to be done for.
fn core_facts(body: &str) -> (usize, i64) {
    let facts = message::read(body.as_bytes()).expect("it is one JSON object");
    let ids = facts.calls.len() + facts.entity_refs.len() + usize::from(facts.answers.is_some());
    (facts.role.as_str().len() + ids, facts.time_ms.unwrap_or(0))
}

fn derived_facts(body: &str) -> (usize, i64) {
    let read: Body<'_> = serde_json::from_str(body).expect("it is of these types");
    let ids = read.tool_calls.iter().filter(|call| !call.id.is_empty()).count()
        + read.entity_refs.len()
        + usize::from(read.tool_call_id.or(read.call_id).is_some());
    let time_ms = match read.timestamp.or(read.created_at) {
        Some(Time::Text(text)) => redis_session_core::time::parse_iso_8601(&text).unwrap_or(0),
        Some(Time::Number(seconds)) => (seconds * 1000.0) as i64,
        None => 0,
    };
    black_box(read.token_count);
    (read.role.or(read.kind).map_or(5, |role| role.len()) + ids, time_ms)
}

fn run(facts: fn(&str) -> (usize, i64), bodies: &[&str], rounds: usize) {
    for body in std::iter::repeat_n(bodies, rounds).flatten() {
        black_box(facts(black_box(body)));
    }
}

fn nanoseconds_a_body(facts: fn(&str) -> (usize, i64), bodies: &[&str]) -> f64 {
    const ROUNDS: usize = 200_000;
    run(facts, bodies, ROUNDS / 10);
    let start = Instant::now();
    run(facts, bodies, ROUNDS);
    start.elapsed().as_nanos() as f64 / (ROUNDS * bodies.len()) as f64
}

fn main() {
    for body in BODIES {
        assert_eq!(core_facts(body), derived_facts(body), "{body}");
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<usize>().ok());
    let facts = match arguments.first().map(String::as_str) {
        Some("core") => core_facts,
        Some("derive") => derived_facts,
        _ => {
            println!("bytes   core::message   a serde derive");
            for bodies in BODIES.chunks(1).chain([&BODIES[..]]) {
                let bytes = bodies.iter().map(|body| body.len()).sum::<usize>() / bodies.len();
                let (core, derive) = (
                    nanoseconds_a_body(core_facts, bodies),
                    nanoseconds_a_body(derived_facts, bodies),
                );
                println!("{bytes:5}   {core:10.0} ns   {derive:11.0} ns   x {:.1}", derive / core);
            }
            return;
        }
    };
    let bodies = match number(2) {
        Some(only) => &BODIES[only..=only],
        None => &BODIES[..],
    };
    run(facts, bodies, number(1).unwrap_or(1000));
}
