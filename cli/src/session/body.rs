//! Reads message bodies for display. Clients choose their shape, so this knows the common ones and requires none.

use redis_session_client::tolerant;
use serde_json::{Map, Value as Json};

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    /// What the model thought before it spoke.
    Thinking(String),
    /// What is not text: `image: https://…`, `file: a.pdf`.
    Named(String),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// An object where it is one, even if it was sent as a string of JSON.
    pub arguments: Json,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub id: String,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    pub role: String,
    pub name: Option<String>,
    pub parts: Vec<Part>,
    pub calls: Vec<Call>,
    pub answers: Vec<Answer>,
    /// Set if the content was redacted, with the reason if one was given.
    pub redacted: Option<Option<String>>,
}

impl Body {
    /// Reads a body. What is not a JSON object becomes one text part.
    pub fn read(bytes: &str) -> Body {
        match tolerant::json(bytes.as_bytes()) {
            Some(Json::Object(body)) => Body::of(&body),
            _ => Body {
                role: "other".into(),
                parts: vec![Part::Text(bytes.to_owned())],
                ..Body::default()
            },
        }
    }

    fn of(body: &Map<String, Json>) -> Body {
        let mut out = Body {
            role: role(body),
            name: text(body, "name").filter(|name| !name.is_empty()),
            ..Body::default()
        };
        if body.get("redacted") == Some(&Json::Bool(true)) {
            out.redacted = Some(text(body, "reason"));
        }
        let calls = body.get("tool_calls").and_then(Json::as_array);
        out.calls.extend(calls.into_iter().flatten().map(call));
        if let Some(function) = body.get("function_call").filter(|function| function.is_object()) {
            out.calls.push(call(function));
        }
        let kind = body.get("type").and_then(Json::as_str).unwrap_or_default();
        if kind == "function_call" {
            out.calls.push(call(&Json::Object(body.clone())));
            return out;
        }
        // Where the clients that are known put what was said.
        let data = body.get("data").and_then(Json::as_object);
        let content = ["content", "contents", "blocks", "parts", "text", "output", "summary"]
            .iter()
            .find_map(|name| body.get(*name).filter(|value| !value.is_null()))
            .or_else(|| data.and_then(|data| data.get("content")));
        match content {
            Some(content) => out.add_content(content, 0),
            None if out.calls.is_empty() && out.redacted.is_none() => {
                let rest: Map<String, Json> = body.clone().into_iter().filter(|(name, _)| name != "role").collect();
                if !rest.is_empty() && !body.contains_key("content") {
                    out.parts.push(Part::Named(Json::Object(rest).to_string()));
                }
            }
            None => {}
        }
        if let Some(refusal) = text(body, "refusal") {
            out.parts.push(Part::Text(refusal));
        }
        let answered = text(body, "tool_call_id")
            .or_else(|| data.and_then(|data| text(data, "tool_call_id")))
            .or_else(|| text(body, "call_id").filter(|_| kind == "function_call_output"));
        if let Some(id) = answered {
            let text = out.text();
            out.parts.clear();
            out.answers.push(Answer { id, text });
        }
        out
    }

    fn add_content(&mut self, content: &Json, depth: usize) {
        match content {
            Json::String(text) if text.is_empty() => {}
            Json::String(text) => self.parts.push(Part::Text(text.clone())),
            // Bounded, because nothing else bounds how deep a client nests its parts.
            Json::Array(parts) if depth < 8 => parts.iter().for_each(|part| self.add_part(part, depth)),
            Json::Object(object) if depth < 8 => match object.get("parts").or_else(|| object.get("content")) {
                Some(inner) => self.add_content(inner, depth + 1),
                None => self.add_part(content, depth),
            },
            Json::Null => {}
            other => self.parts.push(Part::Text(other.to_string())),
        }
    }

    fn add_part(&mut self, part: &Json, depth: usize) {
        let Json::Object(object) = part else {
            return self.add_content(part, depth + 1);
        };
        let kind = ["type", "block_type", "$type"]
            .iter()
            .find_map(|name| object.get(*name).and_then(Json::as_str))
            .unwrap_or("text");
        let said = text(object, "text").or_else(|| text(object, "content"));
        match kind {
            "text" | "input_text" | "output_text" | "summary_text" if said.is_some() => {
                self.parts.extend(said.map(Part::Text));
            }
            "refusal" => self.parts.extend(text(object, "refusal").or(said).map(Part::Text)),
            "thinking" | "reasoning" => {
                self.parts.extend(text(object, "thinking").or(said).map(Part::Thinking));
            }
            "tool_use" | "function_call" | "toolCall" => self.calls.push(call(part)),
            "tool_result" => {
                let mut inner = Body::default();
                inner.add_content(object.get("content").unwrap_or(&Json::Null), depth + 1);
                let id = text(object, "tool_use_id").unwrap_or_default();
                self.answers.push(Answer { id, text: inner.text() });
            }
            _ => self.parts.push(Part::Named(named(kind, object))),
        }
    }

    /// All parts as one text.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) | Part::Thinking(text) => text.clone(),
            Part::Named(name) => format!("[{name}]"),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Whether it holds nothing but tool results.
    pub fn is_answer_only(&self) -> bool {
        !self.answers.is_empty() && self.parts.is_empty() && self.calls.is_empty()
    }
}

/// The role, as the module derives it.
fn role(body: &Map<String, Json>) -> String {
    if let Some(role) = text(body, "role") {
        return role;
    }
    let role = match body.get("type").and_then(Json::as_str).unwrap_or_default() {
        "human" => "user",
        "ai" | "function_call" => "assistant",
        "system" => "system",
        "tool" | "function_call_output" => "tool",
        _ => "other",
    };
    role.to_owned()
}

fn text(object: &Map<String, Json>, name: &str) -> Option<String> {
    Some(object.get(name)?.as_str()?.to_owned())
}

/// Reads a tool call: `{id, name, arguments}`, OpenAI's `{id, function: {name, arguments}}`, and other shapes.
fn call(call: &Json) -> Call {
    let function = call.get("function").unwrap_or(call);
    let first = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| function.get(*name).filter(|value| !value.is_null()))
    };
    let arguments = first(&["arguments", "args", "input", "parameters"]);
    let arguments = match arguments {
        Some(Json::String(text)) => tolerant::json(text.as_bytes())
            .filter(Json::is_object)
            .unwrap_or_else(|| Json::String(text.clone())),
        Some(other) => other.clone(),
        None => Json::Null,
    };
    let id = ["id", "call_id", "toolCallId"]
        .iter()
        .find_map(|name| call.get(*name)?.as_str());
    // In a body of this type the call's id is `call_id`; its `id` is the item's.
    let id = call.get("call_id").and_then(Json::as_str).or(id);
    Call {
        id: id.unwrap_or_default().to_owned(),
        name: first(&["name", "toolName"])
            .and_then(Json::as_str)
            .unwrap_or("")
            .to_owned(),
        arguments,
    }
}

/// Describes a part that is not text by its type and its location.
fn named(kind: &str, object: &Map<String, Json>) -> String {
    let what = kind.trim_start_matches("input_").trim_end_matches("_url");
    let inner = object
        .get(kind)
        .or_else(|| object.get(what))
        .or_else(|| object.get(&format!("{what}_url")))
        .or_else(|| object.get("source"))
        .or_else(|| object.get("file"));
    let found = |name: &str| {
        let of = |value: &Json| value.get(name).and_then(Json::as_str).map(str::to_owned);
        inner.and_then(of).or_else(|| text(object, name))
    };
    let place = inner.and_then(Json::as_str).map(str::to_owned).or_else(|| {
        ["filename", "file_name", "title", "url", "uri", "file_id"]
            .iter()
            .find_map(|name| found(name))
    });
    let place = match place {
        // Bytes in the text itself.
        Some(url) if url.starts_with("data:") => {
            let media = url[5..].split([';', ',']).next().unwrap_or_default().to_owned();
            Some(format!("{media}, {}", size(url.len() * 3 / 4)))
        }
        Some(place) => Some(place),
        None => found("data").map(|data| {
            let media = found("media_type")
                .or_else(|| found("mime_type"))
                .or_else(|| found("format"));
            let size = size(data.len() * 3 / 4);
            media.map_or(size.clone(), |media| format!("{media}, {size}"))
        }),
    };
    match place {
        Some(place) => format!("{what}: {place}"),
        None => what.to_owned(),
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        ..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_every_shape() {
        let shapes = [
            r#"{"role":"assistant","tool_calls":[{"id":"c1","name":"get","arguments":"{\"a\":1}"}]}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"a\":1}"}}]}"#,
            r#"{"type":"function_call","id":"fc_9","call_id":"c1","name":"get","arguments":"{\"a\":1}"}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"get","input":{"a":1}}]}"#,
        ];
        for shape in shapes {
            let body = Body::read(shape);
            let expected = Call {
                id: "c1".into(),
                name: "get".into(),
                arguments: serde_json::json!({"a": 1}),
            };
            assert_eq!(
                (body.role.as_str(), &body.calls[..]),
                ("assistant", &[expected][..]),
                "{shape}"
            );
            assert!(body.parts.is_empty(), "{shape}");
        }
    }

    #[test]
    fn answers_are_read_in_every_shape() {
        let shapes = [
            r#"{"role":"tool","tool_call_id":"c1","name":"get","content":"yes"}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"yes"}]}"#,
            r#"{"type":"function_call_output","call_id":"c1","output":"yes"}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"yes"}]}]}"#,
            r#"{"type":"tool","data":{"content":"yes","tool_call_id":"c1"}}"#,
        ];
        for shape in shapes {
            let body = Body::read(shape);
            let expected = Answer {
                id: "c1".into(),
                text: "yes".into(),
            };
            assert_eq!(body.answers, [expected], "{shape}");
            assert!(body.is_answer_only(), "{shape}");
        }
    }

    #[test]
    fn parts_that_are_no_text_are_named() {
        let body = Body::read(
            r#"{"role":"user","content":[{"type":"text","text":"see"},
               {"type":"image_url","image_url":{"url":"https://a.example/b.png"}},
               {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAABBBB"}},
               {"type":"input_image","image_url":"data:image/jpeg;base64,AAAA"},
               {"type":"file","file":{"filename":"ticket.pdf"}},
               {"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},
               {"type":"hologram"}]}"#,
        );
        assert_eq!(
            body.text(),
            "see\n[image: https://a.example/b.png]\n[image: image/png, 6 bytes]\n[image: image/jpeg, 20 bytes]\n\
             [file: ticket.pdf]\n[audio: wav, 3 bytes]\n[hologram]"
        );
    }

    #[test]
    fn other_clients_messages_are_read() {
        let texts = [
            (r#"{"type":"human","data":{"content":"hi"}}"#, "user", "hi"),
            (
                r#"{"role":"user","contents":[{"$type":"text","text":"hi"}]}"#,
                "user",
                "hi",
            ),
            (
                r#"{"role":"user","blocks":[{"block_type":"text","text":"hi"}]}"#,
                "user",
                "hi",
            ),
            (
                r#"{"author":"user","content":{"role":"user","parts":[{"text":"hi"}]}}"#,
                "other",
                "hi",
            ),
            (r#"{"role":"x","custom":1}"#, "x", r#"[{"custom":1}]"#),
        ];
        for (body, role, text) in texts {
            let read = Body::read(body);
            assert_eq!((read.role.as_str(), read.text().as_str()), (role, text), "{body}");
        }
    }

    #[test]
    fn whatever_comes_something_is_shown() {
        assert_eq!(Body::read("not json").text(), "not json");
        assert_eq!(
            Body::read(r#"{"role":"user","content":"a\ud800b\ud83d\ude00\\ud800"}"#).text(),
            "a\u{fffd}b😀\\ud800"
        );
        assert_eq!(
            Body::read(r#"{"role":5,"content":7,"tool_calls":[1,{}]}"#).calls.len(),
            2
        );
        let redacted = Body::read(r#"{"role":"user","content":"[redacted]","redacted":true,"reason":"gdpr"}"#);
        assert_eq!(redacted.redacted, Some(Some("gdpr".into())));
        let deep = format!(r#"{{"content":{}1{}}}"#, "[".repeat(100), "]".repeat(100));
        assert!(Body::read(&deep).text().contains('['), "{deep}");
    }
}
