# Which files a derivation is built from; a change of any other file leaves its result as it is.
#
# Plain lists, so that scripts/check-flake can hold them against what the sources read without having Nixpkgs.
rec {
  # What cargo needs to compile `fz-mcp` and `fz`: their sources, and every target that a manifest names.
  programs = [
    ../.cargo
    ../Cargo.lock
    ../Cargo.toml
    ../crates/mcp/Cargo.toml
    ../crates/mcp/benches
    ../crates/mcp/build.rs
    ../crates/mcp/src
    ../crates/stub/Cargo.toml
    ../crates/stub/src
    ../venture/Cargo.toml
    ../venture/src
  ];

  # The tour, an example of the crate.
  tour = programs ++ [ ../crates/mcp/examples ];

  # The tests also hold pages and metadata against the program.
  tests = [
    ../.cargo
    ../Cargo.lock
    ../Cargo.toml
    ../CHANGELOG.md
    ../clippy.toml
    ../CONTRIBUTING.md
    ../crates
    ../dist-workspace.toml
    ../docs
    ../flake.nix
    ../mcpb
    ../nix
    ../npm
    ../README.md
    ../rustfmt.toml
    ../SECURITY.md
    ../server.json
    ../venture
  ];
}
