//! A timeline as SVG, without scripts or external resources; text is text.
//!
//! ```text
//!  title, figures
//!  state        ██ working ███████ pass ████ broke ██
//!                               pass → broke
//!  triage       ──◆──────◆──┐
//!  booking      ────────────▼───◆──◆──────
//!  checkpoints            ⚑ offered
//!  messages     ▂ ▂▂ ▁
//!               10:00:00      10:01:00
//! ```

mod marks;
mod place;
mod style;

pub use style::Theme;

use std::fmt::Write;

use super::model::{Speaker, Timeline};
use super::scale::{break_label, Scale};
use super::text::{speaker_name, summary};
use crate::term::color::Mood;
use crate::term::time::{self, Clock};
use place::{escape, fitting, text_width, Box, Room};
use style::class;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 156.0;
const RIGHT: f64 = 24.0;
const TEXT: f64 = 11.0;
const BAND_Y: f64 = 76.0;
const BAND_HEIGHT: f64 = 24.0;
/// Two rows of transitions below the band.
const LANES_Y: f64 = BAND_Y + BAND_HEIGHT + 40.0;
const LANE_HEIGHT: f64 = 60.0;
const FLAGS_HEIGHT: f64 = 40.0;
const MESSAGES_HEIGHT: f64 = 52.0;
const AXIS_HEIGHT: f64 = 46.0;

pub fn drawing(timeline: &Timeline, clock: &Clock, theme: Theme) -> String {
    let scale = Scale::new(&timeline.times(), LEFT, WIDTH - LEFT - RIGHT, 56.0);
    let lanes_end = LANES_Y + timeline.lanes.len() as f64 * LANE_HEIGHT;
    let flags_height = if timeline.flags.is_empty() { 0.0 } else { FLAGS_HEIGHT };
    let messages_height = if timeline.messages.is_empty() {
        0.0
    } else {
        MESSAGES_HEIGHT
    };
    let axis_y = lanes_end + flags_height + messages_height;
    let mut drawing = Drawing {
        out: String::new(),
        timeline,
        clock,
        scale,
        room: Room::default(),
        axis_y,
    };
    drawing.axis();
    drawing.band();
    drawing.lanes();
    drawing.cuts();
    drawing.flags(lanes_end);
    drawing.messages(lanes_end + flags_height);
    drawing.handoffs();
    drawing.marks();
    drawing.handoff_notes();
    let height = axis_y + AXIS_HEIGHT;
    let title = escape(&format!("Timeline of {}", timeline.title));
    let story = escape(&story(timeline));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{title}</title>\n<desc id=\"desc\">{story}</desc>\n\
         <style>{}</style>\n<rect class=\"ground\" x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n{}{}</svg>\n",
        style::sheet(theme),
        WIDTH - 1.0,
        height - 1.0,
        heading(timeline, clock),
        drawing.out
    )
}

/// The description for screen readers.
fn story(timeline: &Timeline) -> String {
    let mut states: Vec<&str> = timeline.spans.iter().map(|span| span.state.as_str()).collect();
    let more = states.len().saturating_sub(20);
    states.truncate(20);
    let mut out = format!("{}. States: {}", summary(timeline), states.join(", then "));
    if more > 0 {
        let _ = write!(out, ", and {more} more");
    }
    let _ = write!(out, ". Agents: {}.", timeline.lanes.join(", "));
    out
}

fn heading(timeline: &Timeline, clock: &Clock) -> String {
    let line = |class: &str, y: f64, text: &str| {
        let text = escape(&fitting(text, TEXT, WIDTH - 300.0));
        format!("<text class=\"{class}\" x=\"20\" y=\"{y}\">{text}</text>\n")
    };
    let mut figures = summary(timeline);
    let _ = write!(
        figures,
        ", from {} {}",
        clock.full(timeline.begin_ms),
        clock.zone(timeline.begin_ms)
    );
    if timeline.is_closed {
        figures += "; closed";
    }
    let named = match timeline.title == timeline.key {
        true => timeline.id.clone(),
        false => format!("{}  {}", timeline.key, timeline.id),
    };
    let title = fitting(&timeline.title, 17.0, WIDTH / 2.0 - 40.0);
    let named = fitting(&named, TEXT, WIDTH / 2.0 - 40.0);
    format!(
        "<text class=\"t h\" x=\"20\" y=\"32\">{}</text>\n<text class=\"d\" x=\"{:.0}\" y=\"32\" text-anchor=\"end\">{}</text>\n{}",
        escape(&title),
        WIDTH - RIGHT,
        escape(&named),
        line("d", 54.0, &figures)
    )
}

struct Drawing<'t> {
    out: String,
    timeline: &'t Timeline,
    clock: &'t Clock,
    scale: Scale,
    room: Room,
    /// Where the time axis is, below everything.
    axis_y: f64,
}

impl<'t> Drawing<'t> {
    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let _ = writeln!(
            self.out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.out,
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>"
        );
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let _ = writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// The name of a row, at its left.
    fn name(&mut self, class: &str, y: f64, name: &str) {
        let name = fitting(name, TEXT, LEFT - 32.0);
        self.text(class, 20.0, y, &name);
    }

    fn lane_y(&self, lane: usize) -> f64 {
        LANES_Y + lane as f64 * LANE_HEIGHT + LANE_HEIGHT / 2.0 + 4.0
    }

    fn axis(&mut self) {
        let y = self.axis_y;
        let first_day = self.clock.short_day(self.timeline.begin_ms);
        let mut day = first_day.clone();
        for tick in self.scale.ticks(self.clock, 92.0) {
            self.line("g", (tick.x, BAND_Y + BAND_HEIGHT), (tick.x, y + 4.0));
            // The day where it changes; the beginning's stands in the heading.
            let today = self.clock.short_day(tick.time_ms);
            let label = match today == day || tick.label == today {
                true => tick.label.clone(),
                false => format!("{today} {}", tick.label),
            };
            day = today;
            let since_ms = tick.time_ms - self.timeline.begin_ms;
            let since = match self.timeline.end_ms - self.timeline.begin_ms {
                ..10_000 => format!("+{}", time::duration(since_ms)),
                _ => time::offset(since_ms),
            };
            for (class, dy, text) in [("t", 18.0, label), ("d", 32.0, since)] {
                let width = text_width(&text, TEXT);
                let x = (tick.x - width / 2.0).clamp(LEFT - 40.0, WIDTH - 8.0 - width);
                self.text(class, x + width * 0.06, y + dy, &text);
            }
        }
        self.line("l", (LEFT - 8.0, y), (WIDTH - RIGHT + 8.0, y));
        let zone = self.clock.zone(self.timeline.begin_ms);
        self.name("d", y + 18.0, &zone);
        for cut in &self.scale.breaks {
            self.room.take(Box {
                x: cut.x + 4.0,
                y: BAND_Y + BAND_HEIGHT,
                width: cut.width - 8.0,
                height: y,
            });
        }
    }

    /// Draws a break of the axis, with the length of the silence that is left out.
    fn cuts(&mut self) {
        let y = self.axis_y;
        for cut in self.scale.breaks.clone() {
            let middle = cut.x + cut.width / 2.0;
            let (x, width) = (cut.x + 8.0, cut.width - 16.0);
            self.rect("cut", x, BAND_Y + BAND_HEIGHT, width, y - BAND_Y - BAND_HEIGHT - 1.0);
            self.rect("cut pale", x, BAND_Y, width, BAND_HEIGHT);
            let label = break_label(cut.span_ms);
            let _ = writeln!(
                self.out,
                "<text class=\"d\" text-anchor=\"middle\" transform=\"translate({:.1} {:.1}) rotate(-90)\">{} of silence</text>",
                middle + 4.0,
                (LANES_Y + y) / 2.0,
                escape(&label)
            );
        }
    }

    fn band(&mut self) {
        self.name("d", BAND_Y + 16.0, "state");
        let mut before: Option<&str> = None;
        let mut changes: Vec<(Mood, f64, String)> = Vec::new();
        let last = self.timeline.spans.len() - 1;
        for (n, span) in self.timeline.spans.iter().enumerate() {
            let mood = Mood::of(&span.state);
            let x = if n == 0 { LEFT - 8.0 } else { self.scale.x(span.from_ms) };
            let end = if n == last {
                WIDTH - RIGHT + 8.0
            } else {
                self.scale.x(span.to_ms)
            };
            let width = (end - x).max(1.0);
            let tip = escape(&format!(
                "{} for {}",
                span.state,
                time::duration(span.to_ms - span.from_ms)
            ));
            let _ = writeln!(
                self.out,
                "<rect class=\"b{}\" x=\"{x:.1}\" y=\"{BAND_Y}\" width=\"{width:.1}\" height=\"{BAND_HEIGHT}\"><title>{tip}</title></rect>",
                class(mood)
            );
            let label = fitting(&span.state, TEXT, width - 10.0);
            if label.chars().count() > 2 || label == span.state {
                self.text(&format!("b o{}", class(mood)), x + 6.0, BAND_Y + 16.0, &label);
            }
            if let Some(before) = before {
                changes.push((mood, x, format!("{before} → {}", span.state)));
            }
            before = Some(&span.state);
        }
        // What went wrong has the first choice of room.
        changes.sort_by_key(|(mood, ..)| *mood != Mood::Bad);
        let is_few = changes.len() <= 60;
        for (mood, x, label) in changes {
            let letter = class(mood);
            let is_bad = mood == Mood::Bad;
            if is_bad || is_few {
                let dash = if is_bad { "" } else { " dash" };
                let opacity = if is_bad { 0.75 } else { 0.35 };
                let _ = writeln!(
                    self.out,
                    "<path class=\"s{letter}{dash}\" stroke-opacity=\"{opacity}\" d=\"M{x:.1} {BAND_Y}V{:.1}\"/>",
                    self.axis_y
                );
            }
            let width = text_width(&label, TEXT) + 6.0;
            let row = |row: f64, x: f64| Box {
                x,
                y: BAND_Y + BAND_HEIGHT + 3.0 + row * 15.0,
                width,
                height: 14.0,
            };
            let rows = [0.0, 1.0]
                .into_iter()
                .flat_map(|n| [row(n, x + 3.0), row(n, x - width - 3.0)]);
            let inside = rows.filter(|place| place.x > LEFT - 20.0 && place.x + place.width < WIDTH - 6.0);
            if let Some(place) = self.room.place(inside.collect::<Vec<_>>()) {
                let weight = if is_bad { "b " } else { "" };
                self.text(
                    &format!("halo {weight}m{letter}"),
                    place.x + 1.0,
                    place.y + 11.0,
                    &label,
                );
            }
        }
    }

    fn lanes(&mut self) {
        for (lane, name) in self.timeline.lanes.iter().enumerate() {
            let y = self.lane_y(lane);
            self.name("t", y + 4.0, name);
            self.line("l", (LEFT - 8.0, y), (WIDTH - RIGHT + 8.0, y));
        }
    }

    fn flags(&mut self, top: f64) {
        if self.timeline.flags.is_empty() {
            return;
        }
        self.name("d", top + 20.0, "checkpoints");
        for flag in &self.timeline.flags {
            let x = self.scale.x(flag.time_ms);
            let mood = Mood::of(&flag.outcome);
            let letter = class(if mood == Mood::Bad { mood } else { Mood::Waiting });
            let parts = [flag.label.as_str(), flag.outcome.as_str()];
            let words = parts
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" · ");
            let tip = escape(&format!("checkpoint {} {words}", flag.seq));
            let _ = writeln!(
                self.out,
                "<g><title>{tip}</title><path class=\"s{letter}\" d=\"M{x:.1} {:.1}V{:.1}\"/>\
                 <path class=\"m{letter}\" d=\"M{x:.1} {:.1}l13 5l-13 5z\"/></g>",
                top + 6.0,
                top + FLAGS_HEIGHT - 2.0,
                top + 6.0,
            );
            self.room.take(Box {
                x,
                y: top,
                width: 14.0,
                height: 18.0,
            });
        }
        for flag in &self.timeline.flags {
            let x = self.scale.x(flag.time_ms);
            let label = if flag.label.is_empty() {
                &flag.outcome
            } else {
                &flag.label
            };
            let label = fitting(label, TEXT, 150.0);
            let width = text_width(&label, TEXT) + 4.0;
            let at = |x: f64, y: f64| Box {
                x,
                y,
                width,
                height: 14.0,
            };
            let places = [
                at(x + 16.0, top + 4.0),
                at(x + 4.0, top + 20.0),
                at(x - width - 2.0, top + 4.0),
                at(x - width - 2.0, top + 20.0),
            ];
            let places = places
                .into_iter()
                .filter(|place| place.x > LEFT - 20.0 && place.x + place.width < WIDTH - 4.0);
            if let Some(place) = self.room.place(places.collect::<Vec<_>>()) {
                self.text("halo t", place.x + 1.0, place.y + 11.0, &label);
            }
        }
    }

    /// Draws the number of messages over time, by speaker.
    fn messages(&mut self, top: f64) {
        if self.timeline.messages.is_empty() {
            return;
        }
        const BIN: f64 = 6.0;
        let mut bins = vec![[0usize; 3]; ((WIDTH - LEFT) / BIN) as usize + 1];
        for said in &self.timeline.messages {
            let bin = ((self.scale.x(said.time_ms) - LEFT) / BIN).max(0.0) as usize;
            let speaker = Speaker::ALL.iter().position(|speaker| *speaker == said.by).unwrap_or(2);
            if let Some(bin) = bins.get_mut(bin) {
                bin[speaker] += 1;
            }
        }
        let most = bins
            .iter()
            .map(|bin| bin.iter().sum::<usize>())
            .max()
            .unwrap_or(1)
            .max(4);
        let base = top + MESSAGES_HEIGHT - 6.0;
        let unit = (MESSAGES_HEIGHT - 14.0) / most as f64;
        self.name("d", top + 16.0, "messages");
        let mut x = 20.0;
        for (n, speaker) in Speaker::ALL.iter().enumerate() {
            let name = speaker_name(*speaker).split(',').next().unwrap_or_default();
            self.rect(&format!("p{n}"), x, top + 25.0, 6.0, 6.0);
            let _ = writeln!(
                self.out,
                "<text class=\"d\" style=\"font-size:9px\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                x + 8.0,
                top + 31.0
            );
            x += 14.0 + text_width(name, 9.0);
        }
        for (n, bin) in bins.iter().enumerate() {
            let mut y = base;
            for (speaker, count) in bin.iter().enumerate() {
                if *count > 0 {
                    let height = *count as f64 * unit;
                    y -= height;
                    self.rect(
                        &format!("p{speaker}"),
                        LEFT + n as f64 * BIN + 0.5,
                        y,
                        BIN - 1.0,
                        (height - 0.5).max(0.5),
                    );
                }
            }
        }
    }
}
