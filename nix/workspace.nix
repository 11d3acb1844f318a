# Everything the flake offers for one package set.
{
  crane,
  lib,
  pkgs,
}:
let
  craneLib = crane.mkLib pkgs;

  files = import ./files.nix;
  sourceOf =
    root: paths:
    lib.fileset.toSource {
      inherit root;
      fileset = lib.fileset.unions paths;
    };

  # The manifests are the one source of the version and of what `meta` says.
  shared = (lib.importTOML ../Cargo.toml).workspace.package;
  describe =
    manifest: mainProgram:
    {
      inherit mainProgram;
      inherit (shared) homepage;
      inherit ((lib.importTOML manifest).package) description;
      changelog = "${shared.repository}/blob/main/CHANGELOG.md";
      license = lib.licenses.mit;
      platforms = lib.platforms.linux ++ lib.platforms.darwin;
      sourceProvenance = [ lib.sourceTypes.fromSource ];
    };

  # The crates of Cratefield declare a newer Rust than they need; the flag changes nothing where rustc is new enough.
  cargoArgs = "--locked --ignore-rust-version";

  common = {
    pname = "fz-mcp";
    inherit (shared) version;
    src = sourceOf ../. files.programs;
    strictDeps = true;
    doInstallCargoArtifacts = false;
  };

  # Both programs are built with the features of both, so that one compilation of the dependencies serves them.
  programArgs = "${cargoArgs} -p cratefield-mcp -p venture";
  programDeps = craneLib.buildDepsOnly (
    common
    // {
      buildPhaseCargoCommand = "cargoWithProfile build ${programArgs}";
      doCheck = false;
    }
  );
  program =
    name: manifest:
    craneLib.buildPackage (
      common
      // {
        pname = name;
        cargoArtifacts = programDeps;
        cargoExtraArgs = "${programArgs} --bin ${name}";
        # The tests run in a check of their own.
        doCheck = false;
        meta = describe manifest name;
      }
    );

  fz-mcp = program "fz-mcp" ../crates/mcp/Cargo.toml;

  # `fz` belongs to a venture. This is the sample's: for the dev shell, the demo and the checks, never on the server's PATH,
  # where it would answer for any other venture without a word.
  fz = program "fz" ../venture/Cargo.toml;

  # Checks and the tour compile in the dev profile: no whole-program optimisation for what runs once.
  development = common // {
    CARGO_PROFILE = "dev";
    cargoExtraArgs = "${cargoArgs} --workspace";
  };
  cargoArtifacts = craneLib.buildDepsOnly development;
  workspaceCheck =
    build: args:
    build (
      development
      // {
        inherit cargoArtifacts;
        src = sourceOf ../. files.tests;
      }
      // args
    );

  tour = craneLib.buildPackage (
    development
    // {
      pname = "fz-mcp-tour";
      inherit cargoArtifacts;
      src = sourceOf ../. files.tour;
      cargoExtraArgs = "${cargoArgs} --workspace --example tour";
      doCheck = false;
    }
  );

  demo = pkgs.writeShellApplication {
    name = "fz-mcp-demo";
    runtimeInputs = [ pkgs.coreutils ];
    # What lies in the store is read-only, and so would be a plain copy of it.
    text = ''
      FZ_VENTURE=$(mktemp -d)
      trap 'rm -rf "$FZ_VENTURE"' EXIT
      cp -R ${../venture}/. "$FZ_VENTURE"
      chmod -R u+w "$FZ_VENTURE"
      export FZ_VENTURE FZ_MCP_BIN=${lib.getExe fz-mcp} FZ_BIN=${lib.getExe fz}
      ${tour}/bin/tour "$@"
    '';
    meta.description = "Walk a real client through fz-mcp on a copy of the sample venture";
  };

  handshake =
    pkgs.runCommand "fz-mcp-handshake"
      {
        nativeBuildInputs = [ pkgs.jq ];
      }
      ''
        bash ${../scripts/handshake} ${lib.getExe fz-mcp} ${lib.getExe fz} ${../venture} "$out"
      '';

  sourceChecks = {
    clippy = workspaceCheck craneLib.cargoClippy {
      cargoClippyExtraArgs = "--all-targets -- --deny warnings";
    };
    doc = workspaceCheck craneLib.cargoDoc { env.RUSTDOCFLAGS = "--deny warnings"; };
    fmt = craneLib.cargoFmt (
      common
      // {
        src = sourceOf ../. files.tests;
        cargoExtraArgs = "--all";
      }
    );
    toml = craneLib.taploFmt (
      common
      // {
        src = sourceOf ../. [ (lib.fileset.fileFilter (file: file.hasExt "toml") ../.) ];
      }
    );
    nextest = workspaceCheck craneLib.cargoNextest {
      env.FZ_BIN = lib.getExe fz;
      # Where there is no /proc, tests look at processes with ps.
      nativeBuildInputs = [ pkgs.ps ];
    };
  };
in
{
  inherit
    demo
    fz
    fz-mcp
    pkgs
    ;

  checks = sourceChecks // {
    inherit
      demo
      fz
      fz-mcp
      handshake
      ;
  };

  devShell = craneLib.devShell {
    checks = sourceChecks;
    packages = [
      fz
      pkgs.cargo-nextest
      pkgs.deadnix
      pkgs.jq
      pkgs.nixfmt-tree
      pkgs.rust-analyzer
      pkgs.taplo
    ];
    # On stderr: stdout may belong to a server that is started in the shell.
    shellHook = ''
      echo 'fz-mcp: try `cargo demo`, or serve the sample venture: nix run .#fz-mcp -- --cwd ./venture -- fz' >&2
    '';
  };
}
