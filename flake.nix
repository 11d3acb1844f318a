{
  description = "Model Context Protocol server over the venture CLI, fz";

  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
    crane.url = "github:ipetkov/crane";
  };

  outputs =
    { nixpkgs, crane, ... }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      workspaceOf = pkgs: import ./nix/workspace.nix { inherit crane lib pkgs; };
      workspaces = lib.genAttrs systems (system: workspaceOf nixpkgs.legacyPackages.${system});
      each = output: lib.mapAttrs (_: output) workspaces;
    in
    {
      packages = each (
        workspace:
        {
          inherit (workspace) fz fz-mcp;
          default = workspace.fz-mcp;
        }
        // lib.optionalAttrs workspace.pkgs.stdenv.hostPlatform.isLinux {
          fz-mcp-static = (workspaceOf workspace.pkgs.pkgsStatic).fz-mcp;
        }
      );

      apps = each (workspace: {
        fz-mcp = {
          type = "app";
          program = lib.getExe workspace.fz-mcp;
          meta = { inherit (workspace.fz-mcp.meta) description; };
        };
        demo = {
          type = "app";
          program = lib.getExe workspace.demo;
          meta = { inherit (workspace.demo.meta) description; };
        };
      });

      checks = each (workspace: workspace.checks);
      devShells = each (workspace: {
        default = workspace.devShell;
      });
      formatter = each (workspace: workspace.pkgs.nixfmt-tree);

      # Built from the Nixpkgs that the overlay is applied to.
      overlays.default = final: _prev: {
        inherit (workspaceOf final) fz-mcp;
      };

      templates.venture = {
        path = ./templates/venture;
        description = "A Cratefield venture: its own fz, fz-mcp and a client configuration in one dev shell";
        welcomeText = ''
          A venture with the module `waitlist`. Nix sees only what git knows, so begin with `git init && git add .`, then
          `nix develop`: it has `fz` and `fz-mcp`, and README.md says what to change first.
        '';
      };
    };
}
