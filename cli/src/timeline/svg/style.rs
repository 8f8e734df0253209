//! The colours of the drawing, for light and for dark. Classes, because some renderers know no variables.

use clap::ValueEnum;

use crate::term::color::Mood;

/// `--theme`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Theme {
    /// Light, and dark where the reader prefers it
    #[default]
    Auto,
    Light,
    Dark,
}

struct Palette {
    ground: &'static str,
    edge: &'static str,
    text: &'static str,
    dim: &'static str,
    grid: &'static str,
    /// For each mood: the colour of marks, of bands, and of text on bands.
    moods: [[&'static str; 3]; 5],
    speakers: [&'static str; 3],
}

const MOODS: [Mood; 5] = [Mood::Good, Mood::Bad, Mood::Waiting, Mood::Busy, Mood::Neutral];

const LIGHT: Palette = Palette {
    ground: "#ffffff",
    edge: "#d1d9e0",
    text: "#1f2328",
    dim: "#59636e",
    grid: "#e7ebef",
    moods: [
        ["#1a7f37", "#c4f0cf", "#0f5323"],
        ["#cf222e", "#ffcfcb", "#8f0f1d"],
        ["#9a6700", "#fbe9a8", "#6b4700"],
        ["#0969da", "#cfe8ff", "#0a4a94"],
        ["#6e5bc0", "#e6e3f6", "#44388a"],
    ],
    speakers: ["#0a7ea4", "#3fa45b", "#b08fd8"],
};

const DARK: Palette = Palette {
    ground: "#0d1117",
    edge: "#30363d",
    text: "#e6edf3",
    dim: "#9aa4af",
    grid: "#21262d",
    moods: [
        ["#3fb950", "#12401f", "#8ee59b"],
        ["#f85149", "#5a1519", "#ffb3ad"],
        ["#d29922", "#473507", "#f2cc60"],
        ["#58a6ff", "#0f3562", "#a5d1ff"],
        ["#a894f0", "#322a57", "#cfc5fa"],
    ],
    speakers: ["#39b3d8", "#4fbf6e", "#9f7fd0"],
};

impl Palette {
    fn rules(&self) -> String {
        let mut out = format!(
            ".ground{{fill:{};stroke:{}}}.cut,.c{{fill:{}}}.t{{fill:{}}}.d{{fill:{}}}.g{{stroke:{}}}.l{{stroke:{}}}.halo{{stroke:{}}}\
             .hand{{stroke:{}}}.handfill{{fill:{}}}",
            self.ground, self.edge, self.ground, self.text, self.dim, self.grid, self.edge, self.ground, self.dim, self.dim
        );
        for (mood, [mark, band, on_band]) in MOODS.iter().zip(self.moods) {
            let name = class(*mood);
            out += &format!(
                ".m{name}{{fill:{mark}}}.s{name}{{stroke:{mark}}}.b{name}{{fill:{band}}}.o{name}{{fill:{on_band}}}"
            );
        }
        for (n, speaker) in self.speakers.iter().enumerate() {
            out += &format!(".p{n}{{fill:{speaker}}}");
        }
        out
    }
}

/// The letter of a mood in class names.
pub fn class(mood: Mood) -> char {
    match mood {
        Mood::Good => 'g',
        Mood::Bad => 'b',
        Mood::Waiting => 'w',
        Mood::Busy => 'u',
        Mood::Neutral => 'n',
    }
}

pub fn sheet(theme: Theme) -> String {
    let fixed = "text{font-family:ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:11px}\
                 .h{font-size:16px;font-weight:600}.b{font-weight:600}.c{font-size:9px;font-weight:600}\
                 .g,.l{stroke-width:1}.hand{stroke-width:1.4;fill:none}.pale{fill-opacity:.6}.dash{stroke-dasharray:3 3}\
                 .halo{stroke-width:3;stroke-linejoin:round;paint-order:stroke}";
    match theme {
        Theme::Light => format!("{fixed}{}", LIGHT.rules()),
        Theme::Dark => format!("{fixed}{}", DARK.rules()),
        Theme::Auto => format!(
            "{fixed}{}@media (prefers-color-scheme:dark){{{}}}",
            LIGHT.rules(),
            DARK.rules()
        ),
    }
}
