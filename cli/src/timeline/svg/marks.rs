//! Events of agents: marks on their lanes, arrows for handoffs.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::place::{escape, fitting, text_width, Box};
use super::style::class;
use super::{Drawing, LEFT, TEXT, WIDTH};
use crate::term::color::Mood;
use crate::timeline::model::Mark;

const MARK_RADIUS: f64 = 5.0;
/// Above this number of events, only transitions and failures have marks; the others are counted.
const MARKS_MAX: usize = 150;
/// Marks closer than this are merged into one with a number.
const TOGETHER: f64 = 9.0;

/// Marks that are merged.
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
    pub(super) fn handoffs(&mut self) {
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

    /// Draws the notes of handoffs where there is room left.
    pub(super) fn handoff_notes(&mut self) {
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

    /// Whether a mark is drawn by itself: all are, unless there are too many.
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

    /// Draws the number of events as bars across the lane, where there are too many for marks.
    fn densities(&mut self) {
        const BIN: f64 = 5.0;
        let mut bins: BTreeMap<(usize, i64), usize> = BTreeMap::new();
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

    pub(super) fn marks(&mut self) {
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
