//! A timeline as SVG: no scripts, nothing to load, text that stays text.
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

mod place;
mod style;

pub use style::Theme;

use std::fmt::Write;

use super::model::{Mark, Speaker, Timeline};
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
const MARK_RADIUS: f64 = 5.0;
/// Of more events than that, only transitions and failures have a mark; the others are counted.
const MARKS_MAX: usize = 150;
/// Marks that are nearer to each other than that become one with a number.
const TOGETHER: f64 = 9.0;

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

/// In words, for who does not see it.
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

/// Marks that stand for one another.
struct Cluster<'t> {
    x: f64,
    lane: usize,
    marks: Vec<&'t Mark>,
}

impl Cluster<'_> {
    fn mood(&self) -> Mood {
        let is = |mood| self.marks.iter().any(|mark| mark.mood == mood);
        let first = [Mood::Bad, Mood::Waiting, Mood::Good, Mood::Busy]
            .into_iter()
            .find(|mood| is(*mood));
        first.unwrap_or(Mood::Neutral)
    }

    /// One kind by its name, several by the most frequent.
    fn label(&self) -> String {
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for mark in &self.marks {
            match kinds.iter_mut().find(|(kind, _)| *kind == mark.kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((&mark.kind, 1)),
            }
        }
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        match kinds.as_slice() {
            [(kind, _)] => (*kind).to_owned(),
            [(one, _), (two, _)] => format!("{one}, {two}"),
            [(kind, _), rest @ ..] => format!("{kind} +{}", rest.len()),
            [] => String::new(),
        }
    }

    fn radius(&self) -> f64 {
        match self.marks.len() {
            1 => MARK_RADIUS,
            2..=9 => 7.5,
            10..=99 => 9.0,
            _ => 11.0,
        }
    }
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
            let since = time::offset(tick.time_ms - self.timeline.begin_ms);
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

    /// Where a silence is left out: the rows stop, and how long it was stands there.
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

    /// How much was said, and by whom.
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

    fn handoffs(&mut self) {
        for handoff in &self.timeline.handoffs {
            let x = self.scale.x(handoff.time_ms);
            let (from, to) = (self.lane_y(handoff.from), self.lane_y(handoff.to));
            let names = [handoff.from, handoff.to].map(|lane| self.timeline.lanes.get(lane).map_or("", String::as_str));
            let tip = escape(&format!(
                "handoff {}: {} → {} {}",
                handoff.seq, names[0], names[1], handoff.note
            ));
            let way = (to - from).signum();
            let _ = writeln!(
                self.out,
                "<g><title>{tip}</title><path class=\"hand\" d=\"M{x:.1} {from:.1}V{:.1}\"/>\
                 <path class=\"handfill\" d=\"M{x:.1} {to:.1}l-4.5 {:.1}h9z\"/><circle class=\"handfill\" cx=\"{x:.1}\" cy=\"{from:.1}\" r=\"2.5\"/></g>",
                to - way * 6.0,
                way * -8.0,
            );
            self.room.take(Box {
                x: x - 4.0,
                y: from.min(to) - 3.0,
                width: 8.0,
                height: (to - from).abs() + 6.0,
            });
        }
    }

    /// Notes of handoffs, where nothing else wanted the room.
    fn handoff_notes(&mut self) {
        for handoff in &self.timeline.handoffs {
            if handoff.note.is_empty() || handoff.from == handoff.to {
                continue;
            }
            let x = self.scale.x(handoff.time_ms);
            let (from, to) = (self.lane_y(handoff.from), self.lane_y(handoff.to));
            let label = fitting(&handoff.note, TEXT, 240.0);
            let width = text_width(&label, TEXT) + 4.0;
            let middle = (from + to) / 2.0 - 6.0;
            let at = |x: f64| Box {
                x,
                y: middle,
                width,
                height: 13.0,
            };
            let places = [at(x + 7.0), at(x - width - 7.0)];
            let places = places
                .into_iter()
                .filter(|place| place.x > LEFT - 20.0 && place.x + place.width < WIDTH - 4.0);
            if let Some(place) = self.room.place(places.collect::<Vec<_>>()) {
                let _ = writeln!(
                    self.out,
                    "<text class=\"halo d\" font-style=\"italic\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    place.x + 1.0,
                    place.y + 10.0,
                    escape(&label)
                );
            }
        }
    }

    /// Marks that are worth a sign of their own: all, unless there are too many.
    fn is_drawn(&self, mark: &Mark) -> bool {
        let is_transition = mark.transition.as_ref().is_some_and(|(from, to)| from != to);
        self.timeline.marks.len() <= MARKS_MAX || is_transition || mark.mood == Mood::Bad
    }

    fn clusters(&self) -> Vec<Cluster<'t>> {
        let mut out: Vec<Cluster> = Vec::new();
        for lane in 0..self.timeline.lanes.len() {
            let mut marks: Vec<(f64, &Mark)> = self
                .timeline
                .marks
                .iter()
                .filter(|mark| mark.lane == lane && self.is_drawn(mark))
                .map(|mark| (self.scale.x(mark.time_ms), mark))
                .collect();
            marks.sort_by(|a, b| a.0.total_cmp(&b.0));
            let first = out.len();
            for (x, mark) in marks {
                match out[first..].last_mut() {
                    Some(last) if x - last.x < TOGETHER.max(last.radius() * 2.0) => last.marks.push(mark),
                    _ => out.push(Cluster {
                        x,
                        lane,
                        marks: vec![mark],
                    }),
                }
            }
        }
        out
    }

    /// Of very many events, how many there were: bars across the lane.
    fn densities(&mut self) {
        const BIN: f64 = 5.0;
        let mut bins: std::collections::BTreeMap<(usize, i64), usize> = std::collections::BTreeMap::new();
        for mark in self.timeline.marks.iter().filter(|mark| !self.is_drawn(mark)) {
            *bins
                .entry((mark.lane, (self.scale.x(mark.time_ms) / BIN) as i64))
                .or_default() += 1;
        }
        let most = bins.values().copied().max().unwrap_or(1) as f64;
        for ((lane, bin), count) in bins {
            // By area, so that one is still seen beside many.
            let height = 4.0 + 30.0 * (count as f64 / most).sqrt();
            let (x, y) = (bin as f64 * BIN, self.lane_y(lane));
            let _ = writeln!(
                self.out,
                "<rect class=\"mn\" fill-opacity=\".6\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"1.5\"><title>{count}</title></rect>",
                x + 0.5,
                y - height / 2.0,
                BIN - 1.0,
            );
        }
    }

    fn marks(&mut self) {
        self.densities();
        let clusters = self.clusters();
        for cluster in &clusters {
            let (x, y, radius) = (cluster.x, self.lane_y(cluster.lane), cluster.radius());
            let mut tip = String::new();
            for mark in cluster.marks.iter().take(12) {
                let _ = write!(tip, "{} {} {}", mark.seq, self.clock.time(mark.time_ms), mark.kind);
                if let Some((from, to)) = &mark.transition {
                    let _ = write!(tip, ", {from} → {to}");
                }
                let _ = writeln!(tip, " {}", crate::term::text::shorten(&mark.details, 120));
            }
            if cluster.marks.len() > 12 {
                let _ = writeln!(tip, "and {} more", cluster.marks.len() - 12);
            }
            let letter = class(cluster.mood());
            let shape = match (cluster.mood(), cluster.marks.len()) {
                // Not by colour alone.
                (Mood::Bad, 1) => format!(
                    "<path class=\"m{letter} halo\" d=\"M{x:.1} {:.1}l7 7l-7 7l-7 -7z\"/>",
                    y - 7.0
                ),
                _ => format!("<circle class=\"m{letter} halo\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"),
            };
            let count = match cluster.marks.len() {
                1 => String::new(),
                count => format!(
                    "<text class=\"c\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{count}</text>",
                    y + 3.3
                ),
            };
            let _ = writeln!(
                self.out,
                "<g><title>{}</title>{shape}{count}</g>",
                escape(tip.trim_end())
            );
            self.room.take(Box {
                x: x - radius,
                y: y - radius,
                width: radius * 2.0,
                height: radius * 2.0,
            });
        }
        // Failures first, then the others in order of time.
        let mut order: Vec<&Cluster> = clusters.iter().collect();
        order.sort_by_key(|cluster| cluster.mood() != Mood::Bad);
        for cluster in order {
            let (x, y) = (cluster.x, self.lane_y(cluster.lane));
            let label = fitting(&cluster.label(), TEXT, 130.0);
            let width = text_width(&label, TEXT) + 4.0;
            let at = |x: f64, dy: f64| {
                let x = x.clamp(LEFT - 10.0, WIDTH - 6.0 - width);
                Box {
                    x,
                    y: y + dy,
                    width,
                    height: 13.0,
                }
            };
            let (middle, near) = (x - width / 2.0, cluster.radius() + 1.0);
            let places = [
                at(middle, -near - 13.0),
                at(middle, near),
                at(x - 6.0, -near - 13.0),
                at(x + 6.0 - width, -near - 13.0),
                at(x - 6.0, near),
                at(x + 6.0 - width, near),
                at(middle, -near - 26.0),
                at(middle, near + 13.0),
            ];
            if let Some(place) = self.room.place(places) {
                let weight = if cluster.mood() == Mood::Bad { "b mb" } else { "t" };
                self.text(&format!("halo {weight}"), place.x + 2.0, place.y + 10.0, &label);
            }
        }
    }
}
