{
  description = "A Cratefield venture";

  # Nixpkgs and crane are the ones that fz-mcp was tested with, so nothing is fetched or compiled twice.
  inputs = {
    fz-mcp.url = "github:Cratefield/fz-mcp";
    nixpkgs.follows = "fz-mcp/nixpkgs";
    crane.follows = "fz-mcp/crane";
  };

  outputs =
    {
      fz-mcp,
      nixpkgs,
      crane,
      ...
    }:
    let
      inherit (nixpkgs) lib;
      each = output: lib.mapAttrs (system: _: output system) fz-mcp.packages;

      fzOf =
        system:
        (crane.mkLib nixpkgs.legacyPackages.${system}).buildPackage {
          src = lib.fileset.toSource {
            root = ./.;
            fileset = lib.fileset.unions [
              ./Cargo.lock
              ./Cargo.toml
              ./src
              ./venture.json
            ];
          };
          strictDeps = true;
          cargoExtraArgs = "--locked --ignore-rust-version";
          meta.mainProgram = "fz";
        };
    in
    {
      packages = each (system: {
        default = fzOf system;
      });

      devShells = each (system: {
        default = (crane.mkLib nixpkgs.legacyPackages.${system}).devShell {
          packages = [
            fz-mcp.packages.${system}.fz-mcp
            (fzOf system)
          ];
          # On stderr: stdout may belong to a server that is started in the shell.
          shellHook = ''
            echo 'fz and fz-mcp are on PATH: try `fz doctor --json`, or start a client that reads .mcp.json here' >&2
          '';
        };
      });
    };
}
