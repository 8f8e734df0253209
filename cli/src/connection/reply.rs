//! What is in a reply. What is not what was expected is nothing, never a panic: it comes from a server.

use redis::Value;

pub fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => Vec::new(),
    }
}

pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

pub fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// A map, flat as in RESP2 or not, as pairs.
pub fn pairs(value: Value) -> Vec<(Vec<u8>, Value)> {
    match value {
        Value::Map(pairs) => pairs
            .into_iter()
            .filter_map(|(name, value)| Some((bytes(name)?, value)))
            .collect(),
        other => {
            let mut items = array(other).into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                pairs.extend(bytes(name).map(|name| (name, value)));
            }
            pairs
        }
    }
}
