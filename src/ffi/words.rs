//! The constant words of replicated commands.
//!
//! Each is one string of the server, created when the module is loaded and shared by reference count from then on, so that a replicated
//! command does not allocate for its option words. To add one, add a line.

macro_rules! words {
    ($($name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Word {
            $($name,)*
        }

        impl Word {
            pub(super) const TEXTS: &'static [&'static str] = &[$($text,)*];
        }
    };
}

words! {
    Add = "ADD",
    Agent = "AGENT",
    Alias = "ALIAS",
    At = "AT",
    AutoName = "AUTONAME",
    Change = "CHANGE",
    Checkpoint = "CHECKPOINT",
    Close = "CLOSE",
    Count = "COUNT",
    Create = "CREATE",
    Dedup = "DEDUP",
    Del = "DEL",
    Entities = "ENTITIES",
    Forget = "FORGET",
    Format = "FORMAT",
    From = "FROM",
    Handoff = "HANDOFF",
    Id = "ID",
    Impact = "IMPACT",
    Impacts = "IMPACTS",
    Index = "INDEX",
    Join = "JOIN",
    Keep = "KEEP",
    KeepTtl = "KEEPTTL",
    Label = "LABEL",
    Lease = "LEASE",
    Leave = "LEAVE",
    Limit = "LIMIT",
    MaxAge = "MAXAGE",
    MaxBytes = "MAXBYTES",
    MaxLen = "MAXLEN",
    MaxTokens = "MAXTOKENS",
    Mention = "MENTION",
    Meta = "META",
    NoPin = "NOPIN",
    Note = "NOTE",
    Now = "NOW",
    Outcome = "OUTCOME",
    Perf = "PERF",
    Persist = "PERSIST",
    Pin = "PIN",
    Pruned = "PRUNED",
    Px = "PX",
    PxAt = "PXAT",
    Reason = "REASON",
    Refs = "REFS",
    Release = "RELEASE",
    Replace = "REPLACE",
    Restore = "RESTORE",
    Scope = "SCOPE",
    State = "STATE",
    Summary = "SUMMARY",
    Tokens = "TOKENS",
    Trim = "TRIM",
    Upto = "UPTO",
}
