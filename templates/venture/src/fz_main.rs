//! `fz` of this venture: the venture CLI, linked against this venture's harness.

fn main() {
    cratefield_cli::main_for(venture::harness);
}
