//! The ratios as an SVG that can be read on light and on dark paper.

use std::fmt::Write as _;

const LEFT: f64 = 250.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 64.0;
const STEP: f64 = 30.0;
const COLOURS: [(&str, &str); 4] =
    [("fz-mcp", "#e8590c"), ("rmcp", "#1c7ed6"), ("TypeScript", "#37963f"), ("Python", "#9c5fd6")];

/// One line per row on a logarithmic scale, a dot per server.
pub fn draw(rows: &[(String, Vec<(&'static str, f64)>)]) -> String {
    let most = rows.iter().flat_map(|(_, ratios)| ratios).map(|(_, ratio)| *ratio).fold(10.0, f64::max);
    let decades = most.log10().ceil();
    // Noise can put a server ahead of the floor.
    let x = |ratio: f64| LEFT + (RIGHT - LEFT) * ratio.max(0.9).log10() / decades;
    let bottom = TOP + STEP * rows.len() as f64;
    let height = bottom + 32.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" width=\"720\" height=\"{height}\" role=\"img\">\n\
         <title>Time of a request, as a multiple of the same work without a wrapper</title>\n\
         <style>text{{font:13px system-ui,sans-serif;fill:#6e7681}}line{{stroke:#8b949e;stroke-opacity:.45}}\
         @media(prefers-color-scheme:light){{text{{fill:#3d444d}}}}@media(prefers-color-scheme:dark){{text{{fill:#d1d7e0}}}}</style>\n\
         <text x=\"8\" y=\"20\">time, as a multiple of the same work without a wrapper (less is better)</text>\n"
    );
    let mut legend = LEFT;
    for (name, colour) in COLOURS {
        let _ = writeln!(
            svg,
            "<circle cx=\"{legend}\" cy=\"40\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" y=\"44\">{name}</text>",
            legend + 10.0
        );
        legend += 105.0;
    }
    let mut mark = 1.0;
    while mark <= 10_f64.powf(decades) {
        let at = x(mark);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>",
            bottom + 18.0
        );
        mark *= 10.0;
    }
    let mut y = TOP + STEP / 2.0;
    for (title, ratios) in rows {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{title}</text>\
             <line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>",
            LEFT - 14.0,
            y + 4.0
        );
        // fz-mcp last, so that nothing covers it.
        for (server, ratio) in ratios.iter().rev() {
            let colour = COLOURS.iter().find(|(name, _)| name == server).map_or("#888", |(_, colour)| colour);
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"><title>{server}: {ratio:.2}</title></circle>",
                x(*ratio)
            );
        }
        y += STEP;
    }
    svg + "</svg>\n"
}
