//! Details of drawn pictures.

use vsweep::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use vsweep::report::picture::to_svg;

/// Draws a chart of these series.
fn drawn(series: Vec<Series>) -> String {
    let axis = || Axis::of("", Scale::Linear);
    let chart = Chart {
        name: String::new(),
        title: "Throughput".to_owned(),
        note: String::new(),
        footer: String::new(),
        simulated: false,
        columns: 1,
        panels: vec![Panel::of(axis(), axis(), series)],
    };
    to_svg(&chart, None)
}

#[test]
fn curves_that_lie_on_each_other_are_both_seen() {
    let curves = |others: [[f64; 2]; 2]| {
        let places = [[1.0, 3.0]].into_iter().chain(others).enumerate();
        let curve = |(number, [first, last]): (usize, [f64; 2])| {
            let marks = vec![Mark::at(1.0, first), Mark::at(2.0, last)];
            Series::new("", Style::Curve(number), marks)
        };
        drawn(places.map(curve).collect())
    };
    let dashes = |svg: &str| svg.matches("stroke-dasharray").count();
    let apart = curves([[2.0, 4.0], [5.0, 9.0]]);
    assert_eq!((dashes(&apart), apart.contains("r=\"11.50\"")), (0, false), "{apart}");
    // The upper line is dashed, and the lower line has larger points.
    let together = curves([[1.0, 3.0], [5.0, 9.0]]);
    assert_eq!(
        (dashes(&together), together.contains("r=\"11.50\"")),
        (1, true),
        "{together}"
    );
    // Three lines have three patterns.
    let all = curves([[1.0, 3.0], [1.0, 3.0]]);
    assert_eq!((dashes(&all), all.contains("r=\"15.50\"")), (2, true), "{all}");
}

#[test]
fn a_few_bars_have_a_low_picture() {
    let height = |bars: u32| {
        let marks = (0..bars).map(|place| Mark::at(10.0, f64::from(place)));
        let svg = drawn(vec![Series::new("Better", Style::Bar(0), marks.collect())]);
        let (_, size) = svg.split_once("viewBox=\"0 0 1600 ").expect("a size");
        let (height, _) = size.split_once('"').expect("it ends");
        height.parse::<f64>().expect("a number")
    };
    let heights = [1, 3, 12].map(height);
    assert!(
        heights[0] < 600.0 && heights[0] < heights[1] && heights[2] == 1000.0,
        "{heights:?}"
    );
}

#[test]
fn bars_of_different_verdicts_look_different() {
    let svgs = [0, 1, 2, 3].map(|number| drawn(vec![Series::new("", Style::Bar(number), vec![Mark::at(10.0, 0.0)])]));
    let different: std::collections::BTreeSet<&String> = svgs.iter().collect();
    assert_eq!(different.len(), svgs.len());
}

#[test]
fn limits_do_not_strike_out_the_figures_of_bars() {
    let bar = Mark {
        label: vec!["-12 %".to_owned()],
        ..Mark::at(-12.0, 0.0)
    };
    let limit = vec![Mark::at(0.5, -0.6), Mark::at(0.5, 0.4)];
    let svg = drawn(vec![
        Series::new("Worse", Style::Bar(1), vec![bar]),
        Series::new("Too small to matter", Style::Limit, limit),
    ]);
    // The figure of a bar to the left stands right of zero, where the limit is too.
    let after = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key).expect("a position");
        let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next();
        number.and_then(|number| number.parse::<f64>().ok()).expect("a number")
    };
    let line_with = |text: &str| svg.lines().find(|line| line.contains(text)).expect("drawn");
    let limit = after(line_with("stroke-dasharray"), "points=\"");
    let figure = after(line_with("-12 %"), "<text x=\"");
    assert!(limit < figure, "{limit} {figure}");
}
