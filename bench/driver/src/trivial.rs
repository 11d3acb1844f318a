//! A child that does next to nothing, in place of fz: `plan` prints the file `envelope` of its directory, `verify` the
//! file `object`, and `doctor` hangs until whoever listens on the socket `leash` there goes away.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn main() -> io::Result<()> {
    let verb = std::env::args().nth(1).unwrap_or_default();
    let name = match verb.as_str() {
        "doctor" => {
            UnixStream::connect("leash")?.read_to_end(&mut Vec::new())?;
            "envelope"
        }
        "verify" => "object",
        _ => "envelope",
    };
    let text = std::fs::read(name)?;
    // stdout as a file: one write, where the standard handle would cut it into lines.
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    io::Write::write_all(&mut stdout, &text)
}
