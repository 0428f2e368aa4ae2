//! Line charts in SVG, one above the other, for results that a single number can't show.

use std::fmt::Display;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 1000;
const HEAD: u32 = 78;
const PANEL: u32 = 380;
const LEGEND: i32 = 235;
const INK: RGBColor = RGBColor(40, 40, 40);
const GREY: RGBColor = RGBColor(120, 120, 120);
const FAINT: RGBColor = RGBColor(228, 228, 228);

/// Okabe and Ito's colours, which colour-blind readers can distinguish as well.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(120, 60, 20),
];

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The title above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line, with a mark at each point.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the axes' units. A point outside an axis is drawn at the axis's end.
    pub points: Vec<(f64, f64)>,
    /// Separate points, which the line does not connect.
    pub apart: Vec<(f64, f64)>,
}

/// An axis: its label and its marks.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    is_log: bool,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates an axis from 0 to at least `max`, in round steps.
    pub fn linear(label: impl Display, max: f64) -> Self {
        let step = round_step(max.max(1e-9) / 6.0);
        let count = (max / step).ceil().max(1.0);
        let marks = steps(count).map(|at| (at * step, short(at * step))).collect();
        Self { label: label.to_string(), is_log: false, marks }
    }

    /// Creates an axis by powers of ten that include both.
    pub fn logarithmic(label: impl Display, min: f64, max: f64) -> Self {
        let first = min.max(1e-9).log10().floor();
        let count = (max.max(1e-9).log10().ceil() - first).max(1.0);
        let marks = steps(count).map(|at| (first + at, short(10_f64.powf(first + at)))).collect();
        Self { label: label.to_string(), is_log: true, marks }
    }

    /// Creates an axis with a mark for each name, at 0, 1, 2, …
    pub fn named(label: impl Display, names: impl IntoIterator<Item = impl Display>) -> Self {
        let marks = (0_u32..).zip(names).map(|(at, name)| (f64::from(at), name.to_string())).collect();
        Self { label: label.to_string(), is_log: false, marks }
    }

    /// Adds one more mark at the end, a step further.
    #[must_use]
    pub fn and(mut self, name: impl Display) -> Self {
        let at = self.end();
        self.marks.push((at, name.to_string()));
        self
    }

    /// Returns the position one step after the last mark.
    pub fn end(&self) -> f64 {
        match self.marks.as_slice() {
            [.., (before, _), (last, _)] => 2.0 * last - before,
            _ => 1.0,
        }
    }

    fn first(&self) -> f64 {
        self.marks.first().map_or(0.0, |(at, _)| *at)
    }

    fn last(&self) -> f64 {
        self.marks.last().map_or(1.0, |(at, _)| *at).max(self.first() + 1e-9)
    }

    /// Returns the position of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let place = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((place - self.first()) / (self.last() - self.first())).clamp(0.0, 1.0)
    }

    /// Returns the value of a mark.
    fn value(&self, mark: f64) -> f64 {
        if self.is_log { 10_f64.powf(mark) } else { mark }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + (f64::from(end - start) * self.place(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.marks.iter().map(|(mark, _)| self.value(*mark)).collect()
    }

    fn range(&self) -> Range<f64> {
        self.value(self.first())..self.value(self.last())
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let place = self.place(*value);
        let is_at = |(mark, _): &&(f64, String)| (self.place(self.value(*mark)) - place).abs() < 1e-6;
        self.marks.iter().find(is_at).map(|(_, name)| name.clone()).unwrap_or_default()
    }
}

/// Draws panels below a title and a subtitle into an SVG file.
///
/// # Errors
/// The system's error, if the file can't be written.
pub fn save(path: &Path, title: &str, subtitle: &str, panels: &[Panel]) -> io::Result<()> {
    let mut svg = String::new();
    draw(&mut svg, title, subtitle, panels).map_err(io::Error::other)?;
    fs::write(path, svg)
}

type Error = DrawingAreaErrorKind<io::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(svg: &mut String, title: &str, subtitle: &str, panels: &[Panel]) -> Result<(), Error> {
    let count = u32::try_from(panels.len()).unwrap_or_default();
    let root = SVGBackend::with_string(svg, (WIDTH, HEAD + PANEL * count)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    head.draw(&Text::new(title, (20, 16), font(24).color(&INK)))?;
    head.draw(&Text::new(subtitle, (20, 48), font(14).color(&GREY)))?;
    for (area, panel) in body.split_evenly((panels.len().max(1), 1)).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    root.present()
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), Error> {
    let (width, _) = area.dim_in_pixel();
    let (chart, legend) = area.split_horizontally(i32::try_from(width).unwrap_or_default() - LEGEND);
    chart.draw(&Text::new(panel.title.as_str(), (20, 12), font(17).color(&INK)))?;
    let mut context = ChartBuilder::on(&chart)
        .margin_top(48)
        .margin_bottom(26)
        .margin_left(12)
        .margin_right(14)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(panel.x.clone(), panel.y.clone())?;
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(GREY)
        .label_style(font(13).color(&INK))
        .axis_desc_style(font(14).color(&INK))
        .x_labels(64)
        .y_labels(64)
        .x_desc(panel.x.label.as_str())
        .y_desc(panel.y.label.as_str())
        .draw()?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let points = line.points.iter().copied();
        context.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        let all = points.chain(line.apart.iter().copied());
        context.draw_series(all.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    draw_legend(&legend, &panel.lines)
}

/// Draws the legend beside the chart, where it covers no line.
fn draw_legend(area: &Area<'_>, lines: &[Line]) -> Result<(), Error> {
    let style = font(14).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for ((line, colour), nth) in lines.iter().zip(COLOURS.iter().cycle()).zip(0..) {
        let middle = 60 + 24 * nth;
        area.draw(&PathElement::new([(8, middle), (34, middle)], colour.stroke_width(2)))?;
        area.draw(&Circle::new((21, middle), 3, colour.filled()))?;
        area.draw(&Text::new(line.name.as_str(), (42, middle), style.clone()))?;
    }
    Ok(())
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().into()
}

/// Returns 0, 1, 2, … `count`.
fn steps(count: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(0.0), |at| Some(at + 1.0)).take_while(move |at| *at <= count)
}

/// Returns 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|times| times * power)
        .find(|round| *round >= step * 0.999)
        .unwrap_or(10.0 * power)
}

/// Formats a number in a few characters: `2000` as `2k`.
fn short(value: f64) -> String {
    let (number, unit) = match value.abs() {
        size if size >= 999_999_999.5 => (value / 1e9, "G"),
        size if size >= 999_999.5 => (value / 1e6, "M"),
        size if size >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    if value != 0.0 && value.abs() < 0.000_999 {
        return format!("{value:.0e}");
    }
    let text = format!("{number:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn marks_are_round_and_reach_the_end() {
        assert_eq!(names(&Axis::linear("", 2_400.0)), ["0", "500", "1000", "1500", "2000", "2500"]);
        assert_eq!(names(&Axis::linear("", 1.1)), ["0", "0.2", "0.4", "0.6", "0.8", "1", "1.2"]);
        assert_eq!(names(&Axis::logarithmic("", 30.0, 20_000.0)), ["10", "100", "1000", "10k", "100k"]);
        assert_eq!(names(&Axis::logarithmic("", 1e-4, 0.01)), ["1e-4", "0.001", "0.01"]);
        assert_eq!(names(&Axis::named("", ["a", "b"]).and("c")), ["a", "b", "c"]);
    }

    #[test]
    fn values_beyond_an_axis_are_drawn_at_its_end() {
        let axis = Axis::logarithmic("", 10.0, 1_000.0);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
        assert!([axis.place(0.0) - 0.0, axis.place(1e9) - 1.0].iter().all(|off| off.abs() < 1e-9));
        assert_eq!(axis.map(&100.0, (10, 110)), 60);
        assert_eq!(axis.format_ext(&100.0), "100");
        assert!((Axis::linear("", 2_000.0).end() - 2_500.0).abs() < 1e-9);
    }

    #[test]
    fn a_chart_contains_its_labels() {
        let line = Line { name: "a line".into(), points: vec![(0.0, 1.0), (1.0, 2.0)], apart: Vec::new() };
        let (x, y) = (Axis::named("rate (1/s)", ["0", "1k"]), Axis::linear("share (%)", 100.0));
        let panel = Panel { title: "A panel".into(), x, y, lines: vec![line] };
        let mut svg = String::new();
        draw(&mut svg, "A title", "a subtitle", &[panel]).unwrap();
        for word in
            ["A title", "a subtitle", "A panel", "a line", "rate (1/s)", "share (%)", "1k", "<polyline"]
        {
            assert!(svg.contains(word), "{word}");
        }
    }
}
