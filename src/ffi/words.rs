//! The constant words of replicated commands.
//!
//! Each is one string of the server, made when the module is loaded and shared by reference count from then on, so
//! that a replicated command does not allocate for its option words. To add one, add a line.

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
    Count = "COUNT",
    Change = "CHANGE",
    Dedup = "DEDUP",
    Entities = "ENTITIES",
    Forget = "FORGET",
    Handoff = "HANDOFF",
    Id = "ID",
    Impact = "IMPACT",
    Index = "INDEX",
    Join = "JOIN",
    KeepTtl = "KEEPTTL",
    Lease = "LEASE",
    Leave = "LEAVE",
    Limit = "LIMIT",
    MaxAge = "MAXAGE",
    MaxBytes = "MAXBYTES",
    MaxLen = "MAXLEN",
    MaxTokens = "MAXTOKENS",
    Mention = "MENTION",
    Meta = "META",
    Note = "NOTE",
    NoPin = "NOPIN",
    Now = "NOW",
    Persist = "PERSIST",
    Pin = "PIN",
    Pruned = "PRUNED",
    Px = "PX",
    PxAt = "PXAT",
    Reason = "REASON",
    Release = "RELEASE",
    Scope = "SCOPE",
    State = "STATE",
    Tokens = "TOKENS",
    Upto = "UPTO",
}
