//! Lists the server's functions that the module calls without testing for their presence, for `src/ffi/load.rs`, which checks
//! for each of them when the module is loaded. The list is collected from the calls, `api!(RedisModule_…)` in `src/ffi`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

const SOURCES: &str = "src/ffi";
const CALL: &str = "api!(";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    let mut functions = BTreeSet::new();
    collect(Path::new(SOURCES), &mut functions);
    assert!(!functions.is_empty(), "no {CALL}…) in {SOURCES}");
    let mut list = String::from("required_functions! {\n");
    for function in functions {
        list.push_str(&format!("    {function}\n"));
    }
    list.push_str("}\n");
    let folder = env::var_os("OUT_DIR").expect("cargo names the folder for what is generated");
    fs::write(Path::new(&folder).join("required_functions.rs"), list).expect("the list is written");
}

/// Collects the functions that the sources in this folder call.
fn collect(folder: &Path, functions: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            collect(&path, functions);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source file");
            functions.extend(called_in(&source));
        }
    }
}

/// Returns the functions named directly after `api!(`, except in comments.
fn called_in(source: &str) -> impl Iterator<Item = String> {
    let code: Vec<&str> = source
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect();
    let code = code.join("\n");
    let calls: Vec<String> = code
        .split(CALL)
        .skip(1)
        .map(|rest| {
            let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
            rest.trim_start().chars().take_while(|char| is_of_name(*char)).collect()
        })
        .collect();
    // The macro's own arms name a variable instead of a function.
    calls.into_iter().filter(|name: &String| !name.is_empty())
}
