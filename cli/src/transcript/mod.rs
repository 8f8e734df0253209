//! Renders a conversation as text, entry by entry: `show` a whole one, `tail` what is appended.
//!
//! ```text
//!  mod.rs        the lines of an entry
//!  exchanges.rs  tool calls with their answers
//! ```

mod exchanges;

use anstyle::Style;
use redis_session_client::{Checkpoint, Event, SessionId};
use serde_json::Value as Json;

use crate::session::body::{Body, Call, Part};
use crate::session::entry::{change, handoff, Entry, What};
use crate::term::color::{of_role, Mood, BAD, CALL, DIM, NAME, WARN};
use crate::term::page::Look;
use crate::term::text::{clean, clean_line, grouped, shorten, width, wrap};
use exchanges::{arguments, called, is_failure, pretty, short, unfolded, Exchanges};

/// Lines shown of a system message, unless `--full` is given: instructions are long and repetitive.
const SYSTEM_LINES: usize = 6;
const THINKING_LINES: usize = 2;
const MALFORMED_LINES: usize = 4;

/// Text in several styles that is shortened to one line.
#[derive(Default)]
struct Line(Vec<(Style, String)>);

impl Line {
    fn put(&mut self, style: Style, text: impl Into<String>) -> &mut Line {
        self.0.push((style, text.into()));
        self
    }

    fn dim(&mut self, text: impl Into<String>) -> &mut Line {
        self.put(DIM, text)
    }

    /// Shortens the line to the room beside `right`, which is aligned to the right edge.
    fn finish(&self, look: &Look, right: &str) -> String {
        let mut room = look
            .columns
            .saturating_sub(if right.is_empty() { 0 } else { width(right) + 2 });
        let mut out = String::new();
        for (style, text) in &self.0 {
            let fitting = shorten(text, room);
            room -= width(&fitting).min(room);
            out += &look.paint.put(*style, &fitting);
            if fitting != *text {
                break;
            }
        }
        if !right.is_empty() {
            out += &format!("{}{}", " ".repeat(room + 2), look.paint.dim(right));
        }
        out.push('\n');
        out
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    Message,
    Record,
}

pub struct Renderer<'l> {
    look: &'l Look,
    exchanges: Exchanges,
    /// Whether entries arrive one by one, so that a result may come after its call was rendered.
    is_live: bool,
    /// Whether a gap means that the reader missed something.
    are_gaps_missed: bool,
    seq_columns: usize,
    day: String,
    last: Option<Block>,
}

impl<'l> Renderer<'l> {
    pub fn new(look: &'l Look, entries: &[Entry]) -> Renderer<'l> {
        let last_seq = entries.iter().map(|entry| entry.seq).max().unwrap_or(0);
        Renderer {
            look,
            exchanges: Exchanges::of(entries),
            is_live: false,
            are_gaps_missed: false,
            seq_columns: last_seq.to_string().len().max(3),
            day: String::new(),
            last: None,
        }
    }

    /// Renders entries as they arrive.
    pub fn live(look: &'l Look, last_seq: u64) -> Renderer<'l> {
        Renderer {
            is_live: true,
            seq_columns: last_seq.to_string().len().max(4),
            ..Renderer::new(look, &[])
        }
    }

    /// Renders gaps from now on as missed entries, not as what the window evicted before.
    pub fn expect_no_gaps(&mut self) {
        self.are_gaps_missed = true;
    }

    fn indent(&self) -> usize {
        self.seq_columns + 2
    }

    fn text_columns(&self) -> usize {
        self.look.columns.saturating_sub(self.indent()).max(20)
    }

    /// Renders an entry; an empty string if it was rendered with another one.
    pub fn entry(&mut self, entry: &Entry) -> String {
        if self.is_live {
            self.exchanges.learn(entry);
        }
        let is_open = self.look.are_tools_open || self.look.is_full;
        if !is_open && self.exchanges.is_folded(entry.seq) {
            return String::new();
        }
        let block = if entry.is_message() {
            Block::Message
        } else {
            Block::Record
        };
        let mut out = String::new();
        let day = self.look.clock.day(entry.time_ms);
        let has_time = !matches!(entry.what, What::Gap { .. } | What::Reset { .. });
        if has_time && day != self.day {
            let relative = self.look.clock.day_relative(entry.time_ms, self.look.now_ms);
            let rule = self
                .look
                .rule(&format!("{day} · {relative}"), &self.look.clock.zone(entry.time_ms));
            out += &format!("\n{rule}\n");
            self.day = day;
            self.last = None;
        }
        // Records stand together; messages have air. A line of a tool's answer follows its call.
        let is_line = self.is_answer_line(entry);
        if block == Block::Message && !is_line || self.last.is_some_and(|last| last != block) {
            out.push('\n');
        }
        self.last = Some(block);
        out += &match &entry.what {
            What::Message { body, .. } if is_line => self.answer_lines(entry, body),
            What::Message { body, tokens } => self.message(entry, body, *tokens),
            What::Malformed(text) => self.malformed(entry, text),
            What::Event(event) => self.event(entry, event),
            What::Checkpoint(checkpoint) => self.checkpoint(entry, checkpoint),
            What::Gap { from, to } => self.gap(*from, *to),
            What::Reset { session_id } => self.reset(*session_id),
            What::Unknown { kind } => {
                let mut line = self.start(entry);
                line.dim(format!(
                    "? {} (this program is older than the module)",
                    clean_line(kind)
                ));
                line.finish(self.look, &self.look.clock.time(entry.time_ms))
            }
        };
        out
    }

    fn start(&self, entry: &Entry) -> Line {
        let mut line = Line::default();
        line.dim(format!("{:>columns$}  ", entry.seq, columns = self.seq_columns));
        line
    }

    /// Indents lines below an entry's first line.
    fn below(&self, style: Style, lines: &[String]) -> String {
        let indent = " ".repeat(self.indent());
        let all = lines.iter().map(|line| match line.is_empty() {
            true => "\n".to_owned(),
            false => format!("{indent}{}\n", self.look.paint.put(style, line)),
        });
        all.collect()
    }

    /// As [`below`](Renderer::below), cut after `keep` lines, with a note of how many are left out.
    fn below_cut(&self, style: Style, mut lines: Vec<String>, keep: usize) -> String {
        // One line more is no longer than the line that says so.
        if self.look.is_full || lines.len() <= keep + 1 {
            return self.below(style, &lines);
        }
        let left = lines.len() - keep;
        lines.truncate(keep);
        self.below(style, &lines) + &self.below(DIM, &[format!("… {left} more lines (--full)")])
    }

    fn message(&self, entry: &Entry, body: &Body, tokens: Option<u64>) -> String {
        let mut line = self.start(entry);
        line.put(of_role(&body.role), clean_line(&body.role));
        if let Some(name) = &body.name {
            line.dim(format!(" · {}", clean_line(name)));
        }
        if let Some(answer) = body.answers.first() {
            let name = self.exchanges.name(&answer.id).filter(|_| body.name.is_none());
            line.dim(name.map(|name| format!(" · {}", clean_line(name))).unwrap_or_default());
        }
        if let Some(tokens) = tokens.filter(|_| self.look.is_full) {
            line.dim(format!(" · {} tokens", grouped(tokens)));
        }
        let mut out = line.finish(self.look, &self.look.clock.time(entry.time_ms));
        if let Some(reason) = &body.redacted {
            let reason = reason.as_ref().map(|reason| format!(": {}", clean_line(reason)));
            let mark = format!("▒▒▒ redacted{} ▒▒▒", reason.unwrap_or_default());
            out += &self.below(WARN, &wrap(&mark, self.text_columns()));
        } else {
            out += &self.parts(body);
        }
        for answer in &body.answers {
            if body.redacted.is_none() {
                out += &self.below(Style::new(), &self.wrapped(&unfolded(&answer.text)));
            }
        }
        for (n, call) in body.calls.iter().enumerate() {
            // A redacted call has nothing but its id.
            if body.redacted.is_some() && call.name.is_empty() {
                continue;
            }
            out += &self.call(entry, n, call);
        }
        out
    }

    fn wrapped(&self, text: &str) -> Vec<String> {
        wrap(&clean(text), self.text_columns())
    }

    fn parts(&self, body: &Body) -> String {
        let is_instruction = matches!(body.role.as_str(), "system" | "developer");
        let cut = if is_instruction { SYSTEM_LINES } else { usize::MAX - 1 };
        let mut out = String::new();
        for part in &body.parts {
            out += &match part {
                Part::Text(text) => self.below_cut(Style::new(), self.wrapped(text), cut),
                Part::Thinking(text) => {
                    let lines = self.wrapped(&format!("thinking: {}", text.trim()));
                    self.below_cut(DIM.italic(), lines, THINKING_LINES)
                }
                Part::Named(name) => {
                    let name = format!("[{}]", clean_line(name));
                    let name = match self.look.is_full {
                        true => wrap(&name, self.text_columns()),
                        false => vec![shorten(&name, self.text_columns())],
                    };
                    self.below(NAME, &name)
                }
            };
        }
        out
    }

    fn call(&self, entry: &Entry, n: usize, call: &Call) -> String {
        let indent = " ".repeat(self.indent());
        let name = called(call);
        if self.look.are_tools_open || self.look.is_full {
            let mut line = Line::default();
            line.put(Style::new(), indent).put(CALL, "→ ").put(CALL.bold(), name);
            let mut out = line.finish(self.look, &clean_line(&call.id));
            if !call.arguments.is_null() {
                let text = call
                    .arguments
                    .as_str()
                    .map_or_else(|| pretty(&call.arguments), unfolded);
                let lines = wrap(&clean(&text), self.text_columns().saturating_sub(2).max(20));
                let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
                out += &self.below(Style::new(), &lines);
            }
            return out;
        }
        let mut line = Line::default();
        line.put(Style::new(), indent.clone()).put(CALL, "→ ").put(CALL, name);
        line.dim("(").put(Style::new(), arguments(call)).dim(")");
        let mut out = line.finish(self.look, "");
        match self.exchanges.answer(entry.seq, n) {
            Some(answer) => out += &self.result(answer, None),
            None if self.is_live => {}
            None => out += &self.below(DIM, &["  ← no answer here".to_owned()]),
        }
        out
    }

    /// Renders a tool result as `← result`, in red if it looks like an error.
    fn result(&self, answer: &str, name: Option<&str>) -> String {
        let mut line = Line::default();
        let style = if is_failure(answer) { BAD } else { DIM };
        line.put(style, format!("{}  ← ", " ".repeat(self.indent())));
        if let Some(name) = name {
            line.put(CALL, format!("{} ", clean_line(name)));
        }
        let text = short(answer);
        line.put(style, if text.is_empty() { "(nothing)".to_owned() } else { text });
        line.finish(self.look, "")
    }

    /// Whether an entry is rendered as result lines: while following, results come without their call.
    fn is_answer_line(&self, entry: &Entry) -> bool {
        let What::Message { body, .. } = &entry.what else {
            return false;
        };
        let is_open = self.look.are_tools_open || self.look.is_full;
        self.is_live && !is_open && body.is_answer_only() && body.redacted.is_none()
    }

    fn answer_lines(&self, _: &Entry, body: &Body) -> String {
        let lines = body
            .answers
            .iter()
            .map(|answer| self.result(&answer.text, self.exchanges.name(&answer.id)));
        lines.collect()
    }

    fn malformed(&self, entry: &Entry, text: &str) -> String {
        let mut line = self.start(entry);
        line.put(BAD, "malformed")
            .dim(" · no JSON object, set aside when the session was migrated");
        let head = line.finish(self.look, &self.look.clock.time(entry.time_ms));
        head + &self.below_cut(DIM, self.wrapped(text), MALFORMED_LINES)
    }

    fn event(&self, entry: &Entry, event: &Event) -> String {
        let time = self.look.clock.time(entry.time_ms);
        let mut line = self.start(entry);
        let mood = Mood::of(&event.event_type);
        if let Some((from, to, note)) = handoff(event) {
            line.put(NAME, "⇄ ")
                .dim("handoff ")
                .put(NAME, clean_line(from))
                .dim(" → ");
            line.put(NAME, clean_line(to));
            if let Some(note) = note {
                line.dim(format!(" · “{}”", clean_line(note)));
            }
        } else {
            let mark = if event.event_type == "restored" { "↺ " } else { "◆ " };
            line.put(mood.style(), mark)
                .put(mood.style().dimmed(), clean_line(&event.event_type));
            if let Some(agent) = &event.agent_id {
                line.dim(format!(" · {}", clean_line(agent)));
            }
        }
        if let Some(moved) = &event.state_transition {
            line.dim(" · ").dim(clean_line(&moved.from)).dim(" → ");
            line.put(Mood::of(&moved.to).style().bold(), clean_line(&moved.to));
        }
        let entities = event.entity_ids();
        if !entities.is_empty() {
            line.dim(format!(" · {}", clean_line(&entities.join(", "))));
        }
        let mut rest = change(event);
        if handoff(event).is_some() {
            ["from", "to", "note"].iter().for_each(|name| {
                rest.shift_remove(*name);
            });
        }
        let rest = Some(rest).filter(|rest| !rest.is_empty());
        let details: Vec<Json> = rest.into_iter().chain(event.impact.clone()).map(Json::Object).collect();
        if self.look.is_full {
            let head = line.finish(self.look, &time);
            let lines: Vec<String> = details.iter().flat_map(|json| self.wrapped(&pretty(json))).collect();
            return head + &self.below(DIM, &lines);
        }
        for json in details {
            line.dim(format!(" · {}", clean_line(&json.to_string())));
        }
        line.finish(self.look, &time)
    }

    fn checkpoint(&self, entry: &Entry, checkpoint: &Checkpoint) -> String {
        let mut line = self.start(entry);
        line.put(WARN, "⚑ ").dim("checkpoint");
        if let Some(label) = &checkpoint.label {
            line.put(WARN.dimmed(), format!(" {}", clean_line(label)));
        }
        if let Some(outcome) = &checkpoint.outcome {
            line.dim(" · ")
                .put(Mood::of(outcome).style().dimmed(), clean_line(outcome));
        }
        if let Some(state) = &checkpoint.state {
            line.dim(format!(" · in state {}", clean_line(state)));
        }
        if !checkpoint.ref_entities.is_empty() {
            line.dim(format!(" · {}", clean_line(&checkpoint.ref_entities.join(", "))));
        }
        line.finish(self.look, &self.look.clock.time(entry.time_ms))
    }

    fn gap(&self, from: u64, to: u64) -> String {
        let seqs = match from == to {
            true => format!("seq {from} is"),
            false => format!("seq {from} to {to} are"),
        };
        // What was missed while following is worth a colour; what a window let go of is as it should be.
        let (style, why) = match self.are_gaps_missed {
            true => (WARN, "gone before it was read; what is left of it follows"),
            false => (DIM, "out of the window, removed or expired"),
        };
        let mut line = Line::default();
        let mark = format!("{:>columns$}  ", "⋯", columns = self.seq_columns);
        line.put(style, mark)
            .put(style, format!("{seqs} no longer there ({why})"));
        line.finish(self.look, "")
    }

    fn reset(&mut self, session_id: SessionId) -> String {
        self.day.clear();
        let mut line = Line::default();
        let mark = format!("{:>columns$}  ", "!", columns = self.seq_columns);
        line.put(WARN.bold(), mark);
        line.put(
            WARN.bold(),
            format!("another session is here now, from its beginning: {session_id}"),
        );
        line.finish(self.look, "")
    }
}
