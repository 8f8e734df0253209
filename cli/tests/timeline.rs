//! `redis-session timeline`.

use redis_session_tests::{Client, Server};
use roxmltree::{Document, Node};

use crate::show::{assert_harmless, fails, load_evil, load_sample, SAMPLE};
use crate::{program, run, stderr};

/// 2026-01-14T10:00:00Z
const BEGIN_MS: i64 = 1_768_384_800_000;

fn texts<'a>(drawing: &'a Document<'_>) -> Vec<&'a str> {
    let nodes = drawing.descendants().filter(|node| node.has_tag_name("text"));
    nodes.filter_map(|node| node.text()).collect()
}

fn number(node: &Node<'_, '_>, name: &str) -> Option<f64> {
    node.attribute(name)?.parse().ok()
}

/// It is a picture, stays within its edges, and runs and loads nothing.
#[track_caller]
fn assert_sound(svg: &str) -> Document<'_> {
    let drawing = Document::parse(svg).unwrap_or_else(|error| panic!("{error} in {svg}"));
    let root = drawing.root_element();
    assert!(root.has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    let (width, height) = (
        number(&root, "width").expect("a width"),
        number(&root, "height").expect("a height"),
    );
    for node in drawing.descendants().filter(|node| node.is_element()) {
        assert!(
            !["script", "image", "a", "foreignObject", "use"].contains(&node.tag_name().name()),
            "{svg}"
        );
        assert!(!node
            .attributes()
            .any(|attribute| attribute.name().starts_with("on") || attribute.name().contains("href")));
        let inside = |value: Option<f64>, most: f64| value.is_none_or(|value| (0.0..=most).contains(&value));
        assert!(
            inside(number(&node, "x"), width) && inside(number(&node, "y"), height),
            "{node:?}"
        );
        assert!(
            inside(number(&node, "cx"), width) && inside(number(&node, "cy"), height),
            "{node:?}"
        );
    }
    for name in ["title", "desc"] {
        let told = root
            .children()
            .find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)));
        assert!(
            told.and_then(|node| node.text()).is_some_and(|text| !text.is_empty()),
            "a {name}"
        );
    }
    drawing
}

#[test]
fn a_sample_is_drawn_with_all_there_is() {
    let server = Server::start();
    load_sample(&server);
    let svg = run(&server, &format!("timeline {SAMPLE} --utc --svg -"), 0);
    let drawing = assert_sound(&svg);
    let texts = texts(&drawing);
    for text in [
        "mia-rebooking",
        "15 events, 3 agents, 2 checkpoints, 17 messages over 2 min 7 s, from 14 Jan 2026 10:00:00 UTC",
        "triage",
        "booking",
        "seats",
        "working → pass",
        "pass → broke",
        "broke → working",
        "identified",
        "searched",
        "broke",
        "fixed",
        "offered",
        "rebooked",
        "schedule change, silver",
        "AC210 full in economy",
        "10:01:00",
        "+1:00",
    ] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
    // Whoever prefers dark gets it, unless a theme is asked for.
    assert!(svg.contains("prefers-color-scheme:dark"));
    let path = server.file("t.svg");
    let output = program(&server, &format!("timeline {SAMPLE} --theme dark --svg"))
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let dark = std::fs::read_to_string(path).expect("a file");
    assert_sound(&dark);
    assert!(!dark.contains("prefers-color-scheme") && dark.contains("#0d1117"));
}

#[test]
fn text_has_a_strip_a_lane_and_a_line_an_event() {
    let server = Server::start();
    load_sample(&server);
    let page = run(
        &server,
        "timeline --index sessions:{acme} mia-rebooking --utc --width 100",
        0,
    );
    let starts = |begin: &str| page.lines().filter(|line| line.trim_start().starts_with(begin)).count();
    assert_eq!(
        [
            starts("state"),
            starts("triage"),
            starts("booking"),
            starts("seats"),
            starts("messages")
        ],
        [1; 5],
        "{page}"
    );
    assert!(page.contains("┤pass──"), "{page}");
    assert_eq!(starts("+"), 17, "{page}");
    for line in [
        "  +0:05  10:00:05  ◆ started     triage",
        "  +0:13  10:00:13  ⇄ handoff     triage → booking  schedule change, silver",
        "  +1:11  10:01:11  ✗ broke       booking           pass → broke  QX7T4P, AC210 · {\"reason\":\"sold o…",
        "  +2:07  10:02:07  ⚑ checkpoint                    rebooked · pass",
    ] {
        assert!(page.lines().any(|is| is == line), "{line}\nin {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(run(&server, &format!("timeline {SAMPLE} --color always"), 0).contains("\u{1b}[31m✗"));
}

/// So many events of some agents, a second apart, with a transition now and then.
fn record(client: &mut Client, key: &str, events: i64) {
    client.run(&format!("SESSION.CREATE {key} LIMIT event-maxlen 0 LIMIT event-ttl 0"));
    for n in 0..events {
        let (agent, at) = (
            ["planner", "coder", "tester"][(n * 7 % 11 % 3) as usize],
            BEGIN_MS + n * 1000,
        );
        let (kind, state) = match n % 100 {
            40 => ("pass", "STATE pass"),
            60 => ("broke", "STATE broke"),
            80 => ("fixed", "STATE working"),
            n => (["modified", "read", "searched"][(n % 3) as usize], ""),
        };
        client.run(&format!("SESSION.EVENT ADD {key} {kind} AGENT {agent} {state} AT {at}"));
    }
}

#[test]
fn few_and_many_events_stay_readable() {
    let server = Server::start();
    let mut client = server.client();
    for (key, events) in [("three", 3), ("many", 1000)] {
        record(&mut client, key, events);
        let svg = run(&server, &format!("timeline {key} --utc --svg -"), 0);
        let drawing = assert_sound(&svg);
        let texts = texts(&drawing);
        assert!(texts.len() < 120, "{} labels", texts.len());
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
        let transitions = texts.iter().filter(|text| **text == "pass → broke").count();
        assert_eq!(transitions, if events == 3 { 0 } else { 10 }, "{texts:?}");
        let page = run(&server, &format!("timeline {key} --utc"), 0);
        assert!(page.lines().count() < 90, "{page}");
        assert_eq!(
            page.matches("✗ broke").count(),
            if events == 3 { 0 } else { 10 },
            "{page}"
        );
        // None is lost: each is a line, or counted in one.
        let rows = page.lines().filter(|line| line.trim_start().starts_with('+'));
        let count = |row: &str| {
            let number = row.split(" ×").nth(1).and_then(|rest| rest.split_whitespace().next());
            number.and_then(|number| number.parse::<i64>().ok()).unwrap_or(1)
        };
        assert_eq!(rows.map(count).sum::<i64>(), events, "{page}");
        let all = run(&server, &format!("timeline {key} --all"), 0);
        assert!(all.lines().count() as i64 > events, "{all}");
    }
}

#[test]
fn long_silences_are_left_out() {
    let server = Server::start();
    server.run(&format!("SESSION.CREATE k LIMIT event-ttl 0 AT {BEGIN_MS}"));
    for day in [0, 3, 4] {
        for minute in 0..5 {
            let at = BEGIN_MS + day * 86_400_000 + minute * 60_000;
            server.run(&format!("SESSION.EVENT ADD k modified AGENT a AT {at}"));
        }
    }
    let svg = run(&server, "timeline k --utc --svg -", 0);
    let drawing = assert_sound(&svg);
    assert!(texts(&drawing).contains(&"2 d 23 h of silence"), "{svg}");
    let page = run(&server, "timeline k --utc", 0);
    assert!(page.contains("silences left out: 2 d 23 h, 23 h 56 min"), "{page}");
    assert!(
        page.contains("  +4d 00:00:00  10:00:00  ◆ modified ×5  a  over 4 min\n"),
        "{page}"
    );
}

#[test]
fn what_would_break_out_is_text() {
    let server = Server::start();
    load_evil(&server);
    let evil = "</title><script>alert('x')</script>&amp;\"";
    server.call(&["SESSION.EVENT", "ADD", "evil", evil, "AGENT", evil, "STATE", evil]);
    server.call(&["SESSION.AGENT", "HANDOFF", "evil", evil, "b", "NOTE", evil]);
    server.call(&["SESSION.CHECKPOINT", "CREATE", "evil", "LABEL", evil]);
    let svg = run(&server, "timeline evil --svg -", 0);
    assert_sound(&svg);
    assert_harmless(&svg);
    for color in ["always", "never"] {
        assert_harmless(&run(&server, &format!("timeline evil --color {color}"), 0));
    }
}

#[test]
fn nothing_to_draw_is_said() {
    let server = Server::start();
    server.run("SESSION.CREATE empty");
    fails(&server, "timeline empty", 1, &["nothing to draw", "SESSION.EVENT ADD"]);
    server.run("SESSION.APPEND one MSG user hi");
    let svg = run(&server, "timeline one --svg -", 0);
    assert_sound(&svg);
    assert!(run(&server, "timeline one", 0).contains("0 events, 0 agents, 1 message over 0 ms"));
    fails(
        &server,
        "timeline one --svg /nonexistent/x.svg",
        1,
        &["/nonexistent/x.svg"],
    );
    fails(&server, "timeline one --theme dark", 2, &["--svg"]);
}

#[test]
fn long_states_do_not_make_lines_longer_than_the_page() {
    let server = Server::start();
    let long = "s".repeat(300);
    server.call(&["SESSION.EVENT", "ADD", "k", "moved", "STATE", &long]);
    server.call(&["SESSION.EVENT", "ADD", "k", "moved", "STATE", &format!("t{long}")]);
    let page = run(&server, "timeline k --all --utc --width 100", 0);
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(page.contains("working → sss") && page.contains("… → tss"), "{page}");
    let narrow = run(&server, "timeline k --all --utc --width 40", 0);
    assert!(narrow.contains("working → sss"), "{narrow}");
}
