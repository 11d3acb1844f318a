//! The version stands once, in Cargo.toml. These files have to repeat it, and must not drift.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[track_caller]
fn json(file: &str) -> Value {
    serde_json::from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Where a version stands, and what stands there.
type Named = (String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("(none)").to_owned()
}

fn server_json() -> Vec<Named> {
    let server = json("server.json");
    let mut found = vec![("server.json, version".to_owned(), text(&server["version"]))];
    for package in server["packages"].as_array().expect("server.json lists packages") {
        let identifier = text(&package["identifier"]);
        // A bundle's version is in its address: .../download/v1.2.3/name.mcpb
        let version = match identifier.split_once("/releases/download/v") {
            Some((_, rest)) => rest.split('/').next().unwrap_or_default().to_owned(),
            None => text(&package["version"]),
        };
        found.push((format!("server.json, package {identifier}"), version));
    }
    found
}

fn npm() -> Vec<Named> {
    let file = "npm/fz-mcp/package.json";
    let package = json(file);
    let mut found = vec![(format!("{file}, version"), text(&package["version"]))];
    for (name, version) in package["optionalDependencies"].as_object().expect("the shim names its platforms") {
        found.push((format!("{file}, optionalDependencies, {name}"), text(version)));
    }
    found
}

fn bundle() -> Vec<Named> {
    vec![("mcpb/manifest.json, version".to_owned(), text(&json("mcpb/manifest.json")["version"]))]
}

/// The newest release that the changelog describes; an "Unreleased" above it is no release.
fn changelog() -> Vec<Named> {
    let page = read("CHANGELOG.md");
    let version = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.split([' ', ']']).next().unwrap_or_default().trim_start_matches(['[', 'v']))
        .find(|title| title.starts_with(|first: char| first.is_ascii_digit()));
    vec![("CHANGELOG.md, first release".to_owned(), version.unwrap_or("(none)").to_owned())]
}

/// The flake reads the manifests, so it needs no version; one that it does name has to be ours.
fn flake() -> Vec<Named> {
    let nix = fs::read_dir(root().join("nix")).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = nix
        .filter(|path| path.extension().is_some_and(|extension| extension == "nix"))
        .chain([root().join("flake.nix")]);
    let mut found = Vec::new();
    for path in files {
        let source = fs::read_to_string(&path).expect("a Nix file can be read");
        for line in source.lines() {
            if let Some((_, rest)) = line.split_once("version = \"") {
                let version = rest.split('"').next().unwrap_or_default();
                found.push((format!("{}, `{}`", path.display(), line.trim()), version.to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_file_names_the_version_of_cargo_toml() {
    let named = [server_json(), npm(), bundle(), changelog(), flake()].concat();
    let wrong: Vec<_> = named
        .iter()
        .filter(|(_, version)| version != VERSION)
        .map(|(place, version)| format!("  {place}: {version}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "Cargo.toml says {VERSION}; correct these, or Cargo.toml if they are right:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_registry_name_is_spelt_alike_everywhere() {
    let name = text(&json("server.json")["name"]);
    assert_eq!(text(&json("npm/fz-mcp/package.json")["mcpName"]), name, "mcpName in npm/fz-mcp/package.json");
    let line = format!("mcp-name: {name}");
    assert!(
        read("crates/mcp/README.md").lines().any(|candidate| candidate == line),
        "crates/mcp/README.md lacks the line `{line}`"
    );
    // The registry grants io.github.OWNER with the owner's own capitals, and compares them.
    let owner = env!("CARGO_PKG_REPOSITORY").trim_start_matches("https://github.com/").split('/').next();
    assert_eq!(name.strip_prefix("io.github.").and_then(|rest| rest.split('/').next()), owner);
}

#[test]
fn every_bundle_and_platform_package_is_named_in_both_lists() {
    let server = json("server.json");
    let bundles: Vec<_> = server["packages"]
        .as_array()
        .expect("server.json lists packages")
        .iter()
        .filter(|package| package["registryType"] == "mcpb")
        .map(|package| text(&package["identifier"]).rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    let shim = json("npm/fz-mcp/package.json");
    let expected: Vec<_> = shim["optionalDependencies"]
        .as_object()
        .expect("the shim names its platforms")
        .keys()
        .map(|name| format!("{}.mcpb", name.trim_start_matches("@cratefield/")))
        .collect();
    assert_eq!(bundles, expected, "server.json against npm/fz-mcp/package.json");
}
