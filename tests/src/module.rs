//! The module under test, built by `cargo` itself so that no test loads a stale file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the shared object to load. Builds it at the first call; a failing build fails every test that needs it.
///
/// It is a release build, because users load the optimised module, or one of the profile that `MODULE_PROFILE` names, such as
/// `release-checked`, which has debug assertions.
pub fn path() -> &'static Path {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(|| match (std::env::var_os("MODULE_PATH"), profile()) {
        (Some(path), _) => Ok(PathBuf::from(path)),
        (None, profile) => build(&profile.unwrap_or_default()),
    }) {
        Ok(path) => path,
        Err(why) => panic!("the module could not be built:\n{why}"),
    }
}

/// Returns the profile of `Cargo.toml` to build the module in; `None` if `MODULE_PATH` names a module built elsewhere.
pub fn profile() -> Option<String> {
    let elsewhere = std::env::var_os("MODULE_PATH").is_some();
    (!elsewhere).then(|| std::env::var("MODULE_PROFILE").unwrap_or_else(|_| "release".into()))
}

/// Returns the root of the workspace.
pub fn project_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie in the workspace")
}

fn build(profile: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--package",
            "redis-session",
            "--profile",
            profile,
            "--message-format=json",
        ])
        .current_dir(project_root())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut library = None;
    let mut diagnostics = String::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        match message["reason"].as_str() {
            Some("compiler-artifact") if message["target"]["name"] == "redis_session" => {
                let files = message["filenames"].as_array().into_iter().flatten();
                library = files
                    .filter_map(|file| file.as_str())
                    .find(|file| file.ends_with(".so") || file.ends_with(".dylib"))
                    .map(PathBuf::from);
            }
            Some("compiler-message") => {
                diagnostics += message["message"]["rendered"].as_str().unwrap_or("");
            }
            _ => {}
        }
    }
    if !output.status.success() {
        return Err(diagnostics + &String::from_utf8_lossy(&output.stderr));
    }
    library.ok_or_else(|| "cargo named no shared object".into())
}
