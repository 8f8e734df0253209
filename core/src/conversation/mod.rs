//! The conversation: the log of messages under its window.
//!
//! An *exchange* is a calling message with the answers to its calls; any other message is an exchange of its own. An exchange stands
//! where its first message stands, and the window lets exchanges go only whole, the oldest first, so an answer never
//! stays without its call. Each answer's record carries the seq of its exchange, found once, when it is appended.
//!
//! ```text
//!   aside (seldom there)             main
//!  +----------------------------+   +------------------------------------------+
//!  | what stays while younger   |   | everything else; trimmed at its front    |
//!  | messages go: pinned ones   |   |                                          |
//!  +----------------------------+   +------------------------------------------+
//!    all seqs here are below all seqs there
//! ```
//!
//! Eviction has a fast path that looks at the front of `main` only, and is taken where exchanges stand in one piece there, as they do
//! in almost every conversation. Whatever else there may be (agents whose exchanges interleave, ages, pins on
//! tool messages) is decided by [`Messages::evict_by_survey`], which walks all headers.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, RangeInclusive};

use smallvec::SmallVec;

use crate::body::{call_hash, Facts, Role};
use crate::limits::Limits;
use crate::log::{Body, Entry, Front, Head, Log, Position};

/// In place of the newest exchange while nothing is known but the logs.
const UNLEARNED: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub struct Messages {
    rare: Option<Box<Rare>>,
    main: Log,
    /// The exchange of the newest record; 0 where it is not known.
    newest_exchange: u64,
    /// Every exchange that begins after this seq stands in one piece.
    scattered_until: u64,
    /// No unpinned message is older than this.
    oldest_time_ms: i64,
    /// The greatest seq of a message that is there no more, in whatever way it went; 0: all are there.
    last_gone: u64,
    /// Everything aside is known to be pinned.
    aside_is_pinned: bool,
}

/// What few sessions' messages have. There only while one of the two is.
#[derive(Debug, Clone, Default)]
struct Rare {
    aside: Log,
    /// How much is pinned, where that has been counted since it last changed.
    pinned: Option<Sums>,
}

impl Default for Messages {
    fn default() -> Self {
        Messages {
            rare: None,
            main: Log::new(),
            newest_exchange: 0,
            scattered_until: 0,
            oldest_time_ms: i64::MAX,
            last_gone: 0,
            aside_is_pinned: true,
        }
    }
}

/// What bounds are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub messages: u64,
    pub tokens: u64,
    pub body_bytes: u64,
}

impl Sums {
    #[inline]
    fn of(log: &Log) -> Self {
        Sums {
            messages: log.len(),
            tokens: log.tokens(),
            body_bytes: log.body_bytes(),
        }
    }

    fn add(&mut self, head: &Head<'_>) {
        self.messages += 1;
        self.tokens += u64::from(head.tokens);
        self.body_bytes += u64::from(head.body_bytes);
    }

    fn minus(self, other: Sums) -> Sums {
        Sums {
            messages: self.messages.saturating_sub(other.messages),
            tokens: self.tokens.saturating_sub(other.tokens),
            body_bytes: self.body_bytes.saturating_sub(other.body_bytes),
        }
    }

    #[inline]
    fn exceed(&self, limits: &Limits) -> bool {
        let over = |sum: u64, bound: u64| bound > 0 && sum > bound;
        over(self.messages, limits.maxlen)
            || over(self.tokens, limits.maxtokens)
            || over(self.body_bytes, limits.maxbytes)
    }
}

/// The bounds that hold now.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    pub limits: &'a Limits,
    /// Roles whose messages, and the exchanges that hold one, are never evicted and count toward no bound.
    pub pins: &'a [String],
    pub now_ms: i64,
}

impl Window<'_> {
    #[inline]
    fn pins(&self, role: &Role<'_>) -> bool {
        !self.pins.is_empty() && self.pins.iter().any(|pin| pin == role.as_str())
    }

    /// Messages from before this time have passed; `i64::MIN` if none can.
    #[inline]
    fn passed_before_ms(&self) -> i64 {
        match self.limits.maxage_ms {
            0 => i64::MIN,
            age => self.now_ms.saturating_sub_unsigned(age),
        }
    }
}

/// A message to be appended, as its body was read.
#[derive(Debug)]
pub struct NewMessage<'a> {
    pub seq: u64,
    pub time_ms: i64,
    pub tokens: u32,
    pub facts: &'a Facts<'a>,
    pub body: &'a [u8],
}

/// What left the window, oldest first, if somebody wants to see it.
pub type Evicted<'a> = Option<&'a mut Vec<Vec<u8>>>;

/// A message's header, as far as whole exchanges are concerned.
struct Surveyed {
    seq: u64,
    exchange: usize,
}

/// One exchange of a survey.
#[derive(Debug, Default)]
struct Exchange {
    sums: Sums,
    oldest_time_ms: i64,
    pinned: bool,
    gone: bool,
}

struct Survey {
    messages: Vec<Surveyed>,
    /// In the order in which they stand.
    exchanges: Vec<Exchange>,
    /// The exchange that holds the newest unpinned message: it always stays.
    newest: Option<usize>,
}

impl Messages {
    #[inline]
    pub fn len(&self) -> u64 {
        self.main.len() + self.aside().map_or(0, |aside| aside.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn aside(&self) -> Option<&Log> {
        match &self.rare {
            Some(rare) if !rare.aside.is_empty() => Some(&rare.aside),
            _ => None,
        }
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(Box::default)
    }

    fn forget_pinned(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.pinned = None;
            if rare.aside.is_empty() {
                self.rare = None;
            }
        }
    }

    /// The greatest seq of a message that is there no more, whatever a read shows.
    pub(crate) fn last_gone_seq(&self) -> u64 {
        self.last_gone
    }

    /// The greatest seq of a message that is there no more, or that a read does not show any more; 0 if all are there.
    pub fn last_gone(&self, window: Window<'_>) -> u64 {
        let hidden = self.hidden(window).last().copied().unwrap_or(0);
        self.last_gone.max(hidden)
    }

    #[inline]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::of(&self.main);
        if let Some(aside) = self.aside() {
            let more = Sums::of(aside);
            sums.messages += more.messages;
            sums.tokens += more.tokens;
            sums.body_bytes += more.body_bytes;
        }
        sums
    }

    pub fn chunks(&self) -> usize {
        self.main.chunks() + self.aside().map_or(0, |aside| aside.chunks())
    }

    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.main.heap_bytes()
            + self
                .rare
                .as_ref()
                .map_or(0, |rare| rare.aside.heap_bytes() + size_of::<Rare>())
    }

    // ---- writing ----------------------------------------------------------------------------------------------------

    /// Appends a message; the window is applied afterwards, by [`Messages::evict`], once for all messages of a command.
    ///
    /// Cost: O(bytes). An answer also searches for its call, from the newest chunk back.
    #[inline]
    pub fn append(&mut self, message: &NewMessage<'_>, pins: &[String], compress_after_bytes: u32) {
        let facts = message.facts;
        if facts.answers.is_some() || !facts.calls.is_empty() {
            self.append_tied(message, pins, compress_after_bytes);
        } else {
            self.push(message, None, &[], pins, compress_after_bytes);
        }
    }

    /// Appends a message that calls or answers.
    #[inline(never)]
    fn append_tied(&mut self, message: &NewMessage<'_>, pins: &[String], compress_after_bytes: u32) {
        let id = message.facts.answers.as_deref();
        let root = id.and_then(|id| self.exchange_of_call(id));
        self.append_to_exchange(message, root, pins, compress_after_bytes);
    }

    /// Appends a message that calls or answers, of which the exchange is known that its call belongs to.
    pub(crate) fn append_to_exchange(
        &mut self,
        message: &NewMessage<'_>,
        root: Option<u64>,
        pins: &[String],
        compress_after_bytes: u32,
    ) {
        let calls: SmallVec<[u32; 4]> = message.facts.calls.iter().map(|id| call_hash(id)).collect();
        if let Some(root) = root {
            if root != self.newest_exchange {
                self.scattered_until = self.scattered_until.max(root);
            }
        }
        self.push(message, root, &calls, pins, compress_after_bytes);
    }

    #[inline(always)]
    fn push(
        &mut self,
        message: &NewMessage<'_>,
        root: Option<u64>,
        calls: &[u32],
        pins: &[String],
        compress_after_bytes: u32,
    ) {
        self.main.push(
            &Entry {
                seq: message.seq,
                time_ms: message.time_ms,
                tokens: message.tokens,
                role: &message.facts.role,
                root,
                calls,
                body: message.body,
            },
            compress_after_bytes,
        );
        self.newest_exchange = root.unwrap_or(message.seq);
        self.oldest_time_ms = self.oldest_time_ms.min(message.time_ms);
        if !pins.is_empty() {
            self.count_pinned(message, root, pins);
        }
    }

    #[inline(never)]
    fn count_pinned(&mut self, message: &NewMessage<'_>, root: Option<u64>, pins: &[String]) {
        let Some(rare) = &mut self.rare else { return };
        match &mut rare.pinned {
            // An answer may pin its exchange, or be pinned by it: counted anew when a bound asks.
            pinned if root.is_some() => *pinned = None,
            Some(pinned) if pins.iter().any(|pin| pin == message.facts.role.as_str()) => {
                pinned.messages += 1;
                pinned.tokens += u64::from(message.tokens);
                pinned.body_bytes += message.body.len() as u64;
            }
            _ => {}
        }
    }

    /// The exchange of the message that was appended last.
    pub(crate) fn newest_exchange(&self) -> u64 {
        self.newest_exchange
    }

    fn exchange_of_call(&self, id: &str) -> Option<u64> {
        let hash = call_hash(id);
        let found = self.main.find_call(id, hash);
        found
            .or_else(|| self.aside().and_then(|aside| aside.find_call(id, hash)))
            .map(|(_, exchange)| exchange)
    }

    /// Restores the window's invariant; returns how many messages went.
    ///
    /// Cost: O(messages evicted) where the exchanges at the front stand in one piece; else O(messages) headers.
    #[inline]
    pub fn evict(&mut self, window: Window<'_>, evicted: Evicted<'_>) -> u64 {
        let passed = self.oldest_time_ms < window.passed_before_ms();
        if passed || self.sums().exceed(window.limits) {
            self.evict_some(window, evicted, passed)
        } else {
            0
        }
    }

    fn evict_some(&mut self, window: Window<'_>, mut evicted: Evicted<'_>, passed: bool) -> u64 {
        let before = self.len();
        if passed || !self.evict_at_front(window, &mut evicted) {
            self.evict_by_survey(window, &mut evicted);
        }
        before - self.len()
    }

    /// The fast path; false if it cannot decide. What it evicted until then was rightly evicted.
    #[inline]
    fn evict_at_front(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) -> bool {
        if self.rare.is_some() || !window.pins.is_empty() {
            return self.evict_at_front_past_pins(window, evicted);
        }
        while Sums::of(&self.main).exceed(window.limits) {
            let Some(front) = self.main.front() else { return true };
            if front.root.is_some() || self.newest_exchange == 0 {
                return false;
            }
            if front.seq == self.newest_exchange {
                // In one piece it is all there is; with others behind it, the survey finds those.
                return front.seq > self.scattered_until || self.main.len() == 1;
            }
            if !front.makes_calls {
                self.drop_front(&front, evicted);
            } else if front.seq > self.scattered_until {
                self.drop_exchange(front, evicted);
            } else {
                return false;
            }
        }
        true
    }

    /// Drops the exchange that begins at the front and stands in one piece there.
    #[inline(never)]
    fn drop_exchange(&mut self, first: Front, evicted: &mut Evicted<'_>) {
        let mut front = Some(first);
        while let Some(member) = front.filter(|front| front.root.unwrap_or(front.seq) == first.seq) {
            self.drop_front(&member, evicted);
            front = self.main.front();
        }
    }

    /// The fast path where something is pinned: single messages at the front go, or are set aside if pinned.
    #[inline(never)]
    fn evict_at_front_past_pins(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) -> bool {
        let known = self.rare.as_ref().and_then(|rare| rare.pinned);
        let pinned = match known {
            Some(pinned) => pinned,
            None if window.pins.is_empty() => Sums::default(),
            None => {
                let pinned = self.survey(window).pinned();
                self.rare_mut().pinned = Some(pinned);
                pinned
            }
        };
        while self.sums().minus(pinned).exceed(window.limits) {
            // The oldest exchanges stand aside: they go first, unless all of that is pinned.
            if !self.aside_is_pinned {
                return false;
            }
            let Some(front) = self.main.front() else { return true };
            let newest_is_single = self.newest_exchange_is_single_and_unpinned(window);
            if front.root.is_some() || front.makes_calls || !newest_is_single || front.seq == self.newest_exchange {
                return false;
            }
            if self.front_role_is_pinned(window) {
                self.set_front_aside();
            } else {
                self.drop_front(&front, evicted);
            }
        }
        true
    }

    fn front_role_is_pinned(&self, window: Window<'_>) -> bool {
        let flow = self
            .main
            .scan(Position::START, |head, _| ControlFlow::Break(window.pins(&head.role)));
        flow == ControlFlow::Break(true)
    }

    fn newest_exchange_is_single_and_unpinned(&self, window: Window<'_>) -> bool {
        let mut single = false;
        let _ = self.main.scan_rev(Position::END, |head, _| {
            single = head.root.is_none() && !head.makes_calls() && !window.pins(&head.role);
            ControlFlow::Break(())
        });
        single && self.newest_exchange != 0
    }

    #[inline(always)]
    fn drop_front(&mut self, front: &Front, evicted: &mut Evicted<'_>) {
        if let Some(evicted) = evicted {
            self.show_front(evicted);
        }
        self.main.drop_front(front);
        // Not always: a younger one may have been removed before.
        self.last_gone = self.last_gone.max(front.seq);
    }

    #[inline(never)]
    fn show_front(&self, evicted: &mut Vec<Vec<u8>>) {
        let _ = self.main.scan(Position::START, |_, body| {
            evicted.push(body.get().to_vec());
            ControlFlow::Break(())
        });
    }

    fn set_front_aside(&mut self) {
        let Some(front) = self.main.front() else { return };
        let rare = self.rare.get_or_insert_with(Box::default);
        copy_record(&self.main, Position::START, &mut rare.aside);
        self.main.drop_front(&front);
    }

    /// Decides by all headers which exchanges go: those of which a message has passed `maxage`, and the oldest ones until every bound
    /// holds for what is not pinned. Pinned ones and the newest stay.
    fn evict_by_survey(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) {
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        let mut left = survey.unpinned();
        for number in 0..survey.exchanges.len() {
            if !left.exceed(window.limits) {
                break;
            }
            let exchange = &mut survey.exchanges[number];
            if !exchange.pinned && !exchange.gone && survey.newest != Some(number) {
                exchange.gone = true;
                left = left.minus(exchange.sums);
            }
        }
        let gone = survey.gone_seqs();
        self.take(&gone, |body| {
            if let Some(evicted) = evicted {
                evicted.push(body.to_vec());
            }
        });
        self.oldest_time_ms = survey
            .exchanges
            .iter()
            .filter(|exchange| !exchange.pinned && !exchange.gone)
            .map(|exchange| exchange.oldest_time_ms)
            .min()
            .unwrap_or(i64::MAX);
        if !window.pins.is_empty() {
            self.rare_mut().pinned = Some(survey.pinned());
        }
        let aside_until = self.main.front().map_or(u64::MAX, |head| head.seq);
        self.aside_is_pinned = survey
            .messages
            .iter()
            .take_while(|message| message.seq < aside_until)
            .all(|message| survey.exchanges[message.exchange].pinned || survey.exchanges[message.exchange].gone);
        // Pinned exchanges at the front step aside, so that the next eviction finds what may go.
        for message in &survey.messages {
            let exchange = &survey.exchanges[message.exchange];
            match self.main.front() {
                Some(head) if head.seq == message.seq && exchange.pinned && self.main.len() > 1 => {
                    self.set_front_aside()
                }
                Some(head) if head.seq == message.seq => break,
                _ => {}
            }
        }
    }

    fn survey(&self, window: Window<'_>) -> Survey {
        let mut survey = Survey {
            messages: Vec::with_capacity(self.len() as usize),
            exchanges: Vec::new(),
            newest: None,
        };
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        self.scan_heads(|head| {
            let exchanges = &mut survey.exchanges;
            let number = if head.root.is_none() && !head.makes_calls() {
                exchanges.push(Exchange::default());
                exchanges.len() - 1
            } else {
                *numbers.entry(head.exchange()).or_insert_with(|| {
                    exchanges.push(Exchange::default());
                    exchanges.len() - 1
                })
            };
            let exchange = &mut exchanges[number];
            if exchange.sums.messages == 0 || head.time_ms < exchange.oldest_time_ms {
                exchange.oldest_time_ms = head.time_ms;
            }
            exchange.sums.add(head);
            exchange.pinned |= window.pins(&head.role);
            survey.messages.push(Surveyed {
                seq: head.seq,
                exchange: number,
            });
        });
        let newest = survey
            .messages
            .iter()
            .rev()
            .find(|message| !survey.exchanges[message.exchange].pinned);
        survey.newest = newest.map(|message| message.exchange);
        survey
    }

    /// The seqs of messages that `maxage` has passed and no write has freed yet: reads do not show them. In ascending order.
    ///
    /// Cost: O(1) where there are none; else O(messages) headers.
    #[inline]
    pub fn hidden(&self, window: Window<'_>) -> Vec<u64> {
        if self.oldest_time_ms >= window.passed_before_ms() {
            return Vec::new();
        }
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        survey.gone_seqs()
    }

    /// Removes messages by their seqs, which are in ascending order, and gives each one's body to `taken`, oldest first.
    pub fn take(&mut self, seqs: &[u64], mut taken: impl FnMut(&[u8])) -> u64 {
        if seqs.is_empty() {
            return 0;
        }
        for log in self.aside().into_iter().chain([&self.main]) {
            let mut rest = seqs;
            let _ = log.scan(log.position_of_seq(seqs[0]), |head, body| {
                while rest.first().is_some_and(|&seq| seq < head.seq) {
                    rest = &rest[1..];
                }
                match rest.first() {
                    Some(&seq) if seq == head.seq => taken(body.get()),
                    Some(_) => {}
                    None => return ControlFlow::Break(()),
                }
                ControlFlow::Continue(())
            });
        }
        let mut removed = 0;
        if let Some(rare) = &mut self.rare {
            removed += rare.aside.remove(seqs);
        }
        // What pinned an exchange may be gone: what was passed over as pinned has to be looked at again.
        self.oldest_time_ms = i64::MIN;
        self.aside_is_pinned = self.aside().is_none();
        // A run at the front is dropped record by record, without writing a chunk anew.
        let mut rest = seqs;
        while let Some(front) = self.main.front() {
            while rest.first().is_some_and(|&seq| seq < front.seq) {
                rest = &rest[1..];
            }
            if rest.first() != Some(&front.seq) {
                break;
            }
            self.main.drop_front(&front);
            removed += 1;
            rest = &rest[1..];
        }
        removed += self.main.remove(rest);
        self.newest_exchange = 0;
        self.forget_pinned();
        self.last_gone = self.last_gone.max(seqs[seqs.len() - 1]);
        removed
    }

    /// The seqs of these messages and of all answers to the calls among them, in ascending order. Unknown seqs are left out.
    ///
    /// Cost: O(messages) headers where a call is among them; else O(seqs x log chunks).
    pub fn with_answers(&self, seqs: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        let mut calls = false;
        for &seq in seqs {
            if let Some(makes_calls) = self.get(seq, |head, _| head.makes_calls()) {
                found.push(seq);
                calls |= makes_calls;
            }
        }
        found.sort_unstable();
        found.dedup();
        if !calls {
            return found;
        }
        // A call that answers an earlier one shares that one's exchange: its own answers are those behind it.
        let mut all = Vec::new();
        let mut answered_by: HashMap<String, bool> = HashMap::new();
        self.scan_from_seq(found[0], |head, body| {
            let mut goes = found.binary_search(&head.seq).is_ok();
            if goes || head.root.is_some() || head.makes_calls() {
                if let Ok(facts) = crate::body::read(body.get()) {
                    if let Some(id) = &facts.answers {
                        goes |= head.root.is_some() && answered_by.get(id.as_ref()).copied().unwrap_or(false);
                    }
                    for id in facts.calls {
                        answered_by.insert(id.into_owned(), goes);
                    }
                }
            }
            if goes {
                all.push(head.seq);
            }
            ControlFlow::<()>::Continue(())
        });
        all
    }

    /// Puts another body in a message's place.
    pub fn replace(&mut self, seq: u64, body: &[u8], tokens: u32) {
        match &mut self.rare {
            Some(rare) if self.main.front().is_none_or(|head| seq < head.seq) => rare.aside.replace(seq, body, tokens),
            _ => self.main.replace(seq, body, tokens),
        }
        self.forget_pinned();
    }

    pub fn clear(&mut self) {
        let mut last_gone = self.last_gone;
        self.scan_rev(u64::MAX, |head, _| {
            last_gone = last_gone.max(head.seq);
            ControlFlow::Break(())
        });
        *self = Messages {
            last_gone,
            ..Messages::default()
        };
    }

    /// What would go into one message that stands for everything up to `upto_seq`: the seqs, in ascending order. Pinned
    /// messages are not among them, and the boundary moves back rather than split an exchange.
    pub fn compactable(&self, upto_seq: u64, window: Window<'_>) -> Vec<u64> {
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        for exchange in &mut survey.exchanges {
            // What is hidden is as good as gone.
            exchange.pinned |= exchange.gone;
        }
        let last_seqs = {
            let mut last = vec![0; survey.exchanges.len()];
            for message in &survey.messages {
                last[message.exchange] = message.seq;
            }
            last
        };
        let mut end = survey.messages.partition_point(|message| message.seq <= upto_seq);
        // Whatever begins inside and ends beyond pulls the boundary back, and so on until nothing does: with the furthest
        // place that each beginning reaches at hand, one walk back finds it.
        let mut reaches = Vec::with_capacity(end);
        let mut furthest = 0;
        for message in &survey.messages[..end] {
            if !survey.exchanges[message.exchange].pinned {
                furthest = furthest.max(last_seqs[message.exchange]);
            }
            reaches.push(furthest);
        }
        while end > 0 && reaches[end - 1] > survey.messages[end - 1].seq {
            end -= 1;
        }
        let inside = survey.messages[..end].iter();
        inside
            .filter(|message| !survey.exchanges[message.exchange].pinned)
            .map(|message| message.seq)
            .collect()
    }

    /// Puts one message in place of those, at the seq of the last of them.
    ///
    /// Cost: O(messages before and among those).
    pub fn compact(&mut self, seqs: &[u64], message: &NewMessage<'_>, compress_after_bytes: u32) {
        // Something stands at the last of those seqs again.
        let last_gone = self.last_gone.max(seqs.iter().rev().nth(1).copied().unwrap_or(0));
        self.take(seqs, |_| ());
        self.last_gone = last_gone;
        // What stays of the older part stands aside, the new message among it in the order of seqs.
        let mut aside = Log::new();
        let mut placed = false;
        let mut stays: Vec<Log> = self.rare.take().map(|rare| rare.aside).into_iter().collect();
        let mut older = Log::new();
        while let Some(front) = self.main.front().filter(|front| front.seq < message.seq) {
            copy_record(&self.main, Position::START, &mut older);
            self.main.drop_front(&front);
        }
        stays.push(older);
        let calls: SmallVec<[u32; 4]> = message.facts.calls.iter().map(|id| call_hash(id)).collect();
        for log in stays {
            let _ = log.scan(Position::START, |head, body| {
                if head.seq > message.seq && !placed {
                    place(&mut aside, message, &calls);
                    placed = true;
                }
                push_copy(head, body.get(), &mut aside);
                ControlFlow::<()>::Continue(())
            });
        }
        if !placed {
            place(&mut aside, message, &calls);
        }
        self.rare_mut().aside = aside;
        self.aside_is_pinned = false;
        self.oldest_time_ms = self.oldest_time_ms.min(message.time_ms);
        self.newest_exchange = 0;
        if !calls.is_empty() || message.facts.answers.is_some() {
            self.link_anew(compress_after_bytes);
        }
    }

    /// Finds every answer's exchange anew, where a call came to stand before answers that were there already.
    fn link_anew(&mut self, compress_after_bytes: u32) {
        let mut anew = Messages {
            last_gone: self.last_gone,
            ..Messages::default()
        };
        self.scan(|head, body| {
            let body = body.get();
            match crate::body::read(body) {
                Ok(facts) => {
                    let message = NewMessage {
                        seq: head.seq,
                        time_ms: head.time_ms,
                        tokens: head.tokens,
                        facts: &facts,
                        body,
                    };
                    anew.append(&message, &[], compress_after_bytes);
                }
                // Not so for any message that came in; what it is, it stays.
                Err(_) => push_copy(head, body, &mut anew.main),
            }
            ControlFlow::<()>::Continue(())
        });
        *self = anew;
    }

    /// The pinned roles are others now. Cost: O(messages) headers.
    pub fn pins_changed(&mut self) {
        self.forget_pinned();
        self.aside_is_pinned = self.aside().is_none();
        self.learn_anew();
    }

    // ---- reading ----------------------------------------------------------------------------------------------------

    /// Gives every message from the oldest on, until told to stop.
    pub fn scan<B>(&self, each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        self.scan_from(0, each);
    }

    /// Gives every message from the `index`-th on, counted from 0 at the oldest, until told to stop.
    ///
    /// Cost: O(chunks / 64 + messages given).
    #[inline]
    pub fn scan_from<B>(&self, index: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let mut index = index;
        if let Some(aside) = self.aside() {
            if index < aside.len() && aside.scan(aside.position_of_index(index), &mut each).is_break() {
                return;
            }
            index = index.saturating_sub(aside.len());
        }
        let from = if index == 0 {
            Position::START
        } else {
            self.main.position_of_index(index)
        };
        let _ = self.main.scan(from, each);
    }

    /// False says that no message's seq is above this one. Cost: O(1).
    #[inline]
    pub fn may_hold_after(&self, seq: u64) -> bool {
        self.main.may_hold_after(seq) || self.aside().is_some_and(|aside| aside.may_hold_after(seq))
    }

    /// Gives every message whose seq is at least `seq`, oldest first, until told to stop.
    ///
    /// Cost: O(log chunks + messages given).
    pub fn scan_from_seq<B>(&self, seq: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        if let Some(aside) = self.aside() {
            if aside.scan_from_seq(seq, &mut each).is_break() {
                return;
            }
        }
        let _ = self.main.scan_from_seq(seq, each);
    }

    /// Gives every message before the `end`-th, counted from 0 at the oldest, newest first, until told to stop.
    pub fn scan_rev<B>(&self, end: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let aside_len = self.aside().map_or(0, |aside| aside.len());
        if end > aside_len
            && self
                .main
                .scan_rev(self.main.position_of_index(end - aside_len), &mut each)
                .is_break()
        {
            return;
        }
        if let Some(aside) = self.aside() {
            let _ = aside.scan_rev(aside.position_of_index(end), each);
        }
    }

    /// Gives every message whose seq is at most `seq`, newest first, until told to stop.
    pub fn scan_rev_from_seq<B>(&self, seq: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let end = seq.saturating_add(1);
        if self.main.scan_rev(self.main.position_of_seq(end), &mut each).is_break() {
            return;
        }
        if let Some(aside) = self.aside() {
            let _ = aside.scan_rev(aside.position_of_seq(end), each);
        }
    }

    /// Gives every message from between these times, both included, in the order of the seqs or against it, until told to stop.
    ///
    /// Cost: O(chunks + messages of the chunks whose times reach into these).
    pub fn scan_times<B>(
        &self,
        times: &RangeInclusive<i64>,
        rev: bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) {
        let mut logs = [self.aside(), Some(&self.main)];
        if rev {
            logs.reverse();
        }
        for log in logs.into_iter().flatten() {
            if log.scan_times(times, rev, &mut each).is_break() {
                return;
            }
        }
    }

    pub fn get<T>(&self, seq: u64, read: impl FnOnce(&Head<'_>, &[u8]) -> T) -> Option<T> {
        match self.aside() {
            Some(aside) if self.main.front().is_none_or(|head| seq < head.seq) => aside.get(seq, read),
            _ => self.main.get(seq, read),
        }
    }

    fn scan_heads(&self, mut each: impl FnMut(&Head<'_>)) {
        self.scan(|head, _| {
            each(head);
            ControlFlow::<()>::Continue(())
        });
    }

    // ---- payloads and memory ----------------------------------------------------------------------------------------

    pub(crate) fn logs(&self) -> (Option<&Log>, &Log) {
        (self.aside(), &self.main)
    }

    /// Messages from logs that a payload held. Whoever puts them to use has to [`Messages::learn`] first. Cost: O(1).
    pub(crate) fn from_logs(aside: Log, main: Log, last_gone: u64) -> Self {
        Messages {
            aside_is_pinned: aside.is_empty(),
            rare: (!aside.is_empty()).then(|| Box::new(Rare { aside, pinned: None })),
            main,
            last_gone,
            newest_exchange: UNLEARNED,
            ..Messages::default()
        }
    }

    /// The messages of an earlier moment in place of these. All that came after it are gone then, whether they still stand here or not.
    pub(crate) fn restored(&self, mut then: Messages, moment_seq: u64) -> Messages {
        let mut newest = self.last_gone;
        self.scan_rev(u64::MAX, |head, _| {
            newest = newest.max(head.seq);
            ControlFlow::Break(())
        });
        if newest > moment_seq {
            then.last_gone = newest;
        }
        then.learn();
        // Other roles may be pinned now.
        then.forget_pinned();
        then.aside_is_pinned = then.aside().is_none();
        then.oldest_time_ms = i64::MIN;
        then
    }

    /// Drops every message behind a seq. Cost: O(messages dropped).
    pub(crate) fn cut_after(&mut self, seq: u64) {
        let in_main = self.main.cut_after(seq);
        let in_aside = self.rare.as_mut().and_then(|rare| rare.aside.cut_after(seq));
        if let Some(last_seq) = in_main.max(in_aside) {
            self.last_gone = self.last_gone.max(last_seq);
            self.newest_exchange = 0;
            self.oldest_time_ms = i64::MIN;
            self.forget_pinned();
        }
    }

    pub(crate) fn heap_bytes_unseen(&self, seen: &mut HashSet<usize>) -> usize {
        self.main.heap_bytes_unseen(seen)
            + self
                .rare
                .as_ref()
                .map_or(0, |rare| rare.aside.heap_bytes_unseen(seen) + size_of::<Rare>())
    }

    /// Learns from the headers what a payload does not say, if that has not been done. Cost: O(messages) headers, once.
    pub(crate) fn learn(&mut self) {
        if self.newest_exchange == UNLEARNED {
            self.learn_anew();
        }
    }

    fn learn_anew(&mut self) {
        let mut oldest_time_ms = i64::MAX;
        let mut scattered_until = 0;
        let mut previous = 0;
        self.scan_heads(|head| {
            oldest_time_ms = oldest_time_ms.min(head.time_ms);
            if head.root.is_some() && head.exchange() != previous {
                scattered_until = scattered_until.max(head.exchange());
            }
            previous = head.exchange();
        });
        self.oldest_time_ms = oldest_time_ms;
        self.scattered_until = scattered_until;
        self.newest_exchange = previous;
    }

    /// See [`Log::relocate`].
    pub fn relocate(
        &mut self,
        from: usize,
        chunks: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        self.main.relocate(from, chunks, relocate)
    }
}

impl Survey {
    fn pinned(&self) -> Sums {
        self.sum(|exchange| exchange.pinned)
    }

    fn unpinned(&self) -> Sums {
        self.sum(|exchange| !exchange.pinned && !exchange.gone)
    }

    fn sum(&self, counts: impl Fn(&Exchange) -> bool) -> Sums {
        self.exchanges
            .iter()
            .filter(|exchange| counts(exchange))
            .fold(Sums::default(), |sums, exchange| Sums {
                messages: sums.messages + exchange.sums.messages,
                tokens: sums.tokens + exchange.sums.tokens,
                body_bytes: sums.body_bytes + exchange.sums.body_bytes,
            })
    }

    fn mark_passed(&mut self, window: Window<'_>) {
        let passed_before_ms = window.passed_before_ms();
        for (number, exchange) in self.exchanges.iter_mut().enumerate() {
            exchange.gone =
                exchange.oldest_time_ms < passed_before_ms && !exchange.pinned && self.newest != Some(number);
        }
    }

    fn gone_seqs(&self) -> Vec<u64> {
        let gone = self
            .messages
            .iter()
            .filter(|message| self.exchanges[message.exchange].gone);
        gone.map(|message| message.seq).collect()
    }
}

fn copy_record(from: &Log, at: Position, to: &mut Log) {
    let _ = from.scan(at, |head, body| {
        push_copy(head, body.get(), to);
        ControlFlow::Break(())
    });
}

fn push_copy(head: &Head<'_>, body: &[u8], to: &mut Log) {
    let calls: SmallVec<[u32; 4]> = head.calls.iter().collect();
    to.push(
        &Entry {
            seq: head.seq,
            time_ms: head.time_ms,
            tokens: head.tokens,
            role: &head.role,
            root: head.root,
            calls: &calls,
            body,
        },
        0,
    );
}

fn place(log: &mut Log, message: &NewMessage<'_>, calls: &[u32]) {
    log.push(
        &Entry {
            seq: message.seq,
            time_ms: message.time_ms,
            tokens: message.tokens,
            role: &message.facts.role,
            root: None,
            calls,
            body: message.body,
        },
        0,
    );
}
