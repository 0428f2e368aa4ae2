//! Groups as a table, as JSON and as CSV.

use std::borrow::Cow;
use std::fmt::Write;

use super::{Group, Groups, Number, open};
use crate::csv::Csv;
use crate::histogram::Histogram;
use crate::names::Definition;
use crate::row::{Cell, Row};
use crate::source::{ReportSource, Rows, head, json};
use crate::table::{Bound, Shown, Table, TableCell};
use crate::view::Body;
use probe_lang::aggregation::Function;
use probe_lang::units::Time;

impl Group {
    fn shown(number: Number, is_time: bool) -> TableCell<'static> {
        match number {
            Number::Int(it) => match u64::try_from(it).ok().filter(|_| is_time) {
                Some(time) => Time(time).into(),
                None => Shown::Integer(it).into(),
            },
            Number::Float(it) => Shown::Decimal(it).into(),
        }
    }

    fn time(number: f64) -> TableCell<'static> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive")]
        let time = number.round() as u64;
        Time(time).into()
    }

    fn figures(&self, function: Function) -> Vec<(&'static str, Cell<'static>)> {
        let cell = |number: Number| match number {
            Number::Int(it) => Cell::Integer(it),
            Number::Float(it) => Cell::Decimal(it),
        };
        let mut figures = vec![("count", Cell::from(self.count()))];
        match function {
            Function::Count => (),
            Function::Min => figures.push(("min", cell(self.figures.min))),
            Function::Max => figures.push(("max", cell(self.figures.max))),
            Function::Mean => figures.push(("avg", Cell::Decimal(self.mean()))),
            Function::Sum | Function::Quantize => figures.push(("sum", cell(self.figures.sum))),
            _ if self.count() == 0 => {
                let names = ["total_ns", "mean_ns", "min_ns", "p50_ns", "p99_ns", "max_ns"];
                figures.extend(names.map(|name| (name, Cell::Nothing)));
            }
            Function::Latency | Function::Until | Function::Held => figures.extend([
                ("total_ns", cell(self.figures.sum)),
                ("mean_ns", Cell::Decimal(self.mean().round())),
                ("min_ns", cell(self.figures.min)),
                ("p50_ns", Cell::Decimal(self.quantile(0.5))),
                ("p99_ns", Cell::Decimal(self.quantile(0.99))),
                ("max_ns", cell(self.figures.max)),
            ]),
        }
        figures
    }
}

impl Groups {
    /// Returns the texts of the keys, as they are printed.
    fn key_names(&self) -> Vec<String> {
        self.aggregation.keys.iter().map(ToString::to_string).collect()
    }

    /// Returns the groups as JSON, see the chapter on reports.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns a row for each group as comma-separated values, and for `quantize` one for each of
    /// its buckets. For `until` and `held`, it has the number of open intervals, and the time and
    /// the thread of the longest.
    pub fn to_csv(&self) -> String {
        let names = self.key_names();
        let is_quantized = self.aggregation.function == Function::Quantize;
        let mut heading = vec!["probe", "file", "line"];
        heading.extend(names.iter().map(String::as_str));
        if is_quantized {
            heading.extend(["from", "to", "count"]);
        } else {
            let figures = Group::default().figures(self.aggregation.function);
            heading.extend(figures.into_iter().map(|(name, _)| name));
        }
        let is_of_intervals = self.aggregation.function.is_of_intervals();
        if is_of_intervals {
            heading.extend(open::cells(&[]).map(|(name, _)| name));
        }
        let mut csv = Csv::new(&heading);
        for group in &self.rows {
            let begin = |csv: &mut Csv| {
                csv.cell(&group.path).cell(&group.file).number(group.line.into());
                group.keys.iter().for_each(|key| _ = csv.cell(key));
            };
            if is_quantized {
                for (low, high, hits) in group.buckets() {
                    begin(&mut csv);
                    csv.cell(&low.to_string()).cell(&high.to_string()).number(hits).end();
                }
                continue;
            }
            begin(&mut csv);
            let mut cells = group.figures(self.aggregation.function);
            cells.extend(is_of_intervals.then(|| open::cells(&group.open)).into_iter().flatten());
            cells.iter().for_each(|(_, cell)| _ = csv.cell(&cell.plain()));
            csv.end();
        }
        csv.finish()
    }

    /// Returns the groups as folded stacks, for tools that draw flame graphs: `key;…;probe number`,
    /// and a stack for its key. The number is the sum, the time in nanoseconds, or else the hits. A
    /// semicolon in another key becomes a colon, and so does a control character.
    pub fn to_folded(&self) -> String {
        let mut folded = String::new();
        for group in &self.rows {
            let key = |(at, key): (usize, &String)| {
                let is_stack = group.stack == Some(at);
                key.replace(|it: char| it.is_control() || (it == ';' && !is_stack), ":")
            };
            let keys = group.keys.iter().enumerate().filter(|_| !group.is_others).map(key);
            let mut names: Vec<_> = keys.filter(|key| !key.is_empty()).collect();
            names.push(group.path.replace(';', ":"));
            let number = match self.aggregation.function {
                Function::Sum => group.sum().round().max(0.0),
                function if function.is_of_times() => group.sum().round().max(0.0),
                _ => group.count() as f64,
            };
            // Writing to a `String` can't fail.
            let _ = writeln!(folded, "{} {number}", names.join(";"));
        }
        folded
    }

    fn table(&self) -> Table<'_> {
        let function = self.aggregation.function;
        let mut heading: Vec<Cow<'_, str>> = vec!["probe".into()];
        heading.extend(self.key_names().into_iter().map(Cow::from));
        // A lock that is held matters, and none is the rule.
        let has_open = self.rows.iter().any(|group| !group.open.is_empty());
        match function {
            Function::Latency | Function::Until | Function::Held => {
                heading.push(if function == Function::Latency { "calls" } else { "count" }.into());
                heading.extend(["total", "mean", "p50", "p99", "max"].map(Cow::from));
            }
            Function::Count | Function::Quantize => heading.push("count".into()),
            _ => heading.extend(["count", function.name()].map(Cow::from)),
        }
        heading.extend(has_open.then_some(open::HEADING));
        let mut table = Table::new(heading);
        for group in &self.rows {
            table.push(Definition { path: &group.path, file: &group.file, line: group.line });
            self.shown_keys(group).into_iter().for_each(|key| _ = table.push(key));
            table.push(group.count());
            let (figures, is_time) = (&group.figures, group.is_time);
            let bound =
                |bound, cell| TableCell::bounded(if figures.are_bounds { bound } else { Bound::Exact }, cell);
            match function {
                Function::Count | Function::Quantize => (),
                Function::Sum => _ = table.push(Group::shown(figures.sum, is_time)),
                Function::Min => _ = table.push(bound(Bound::AtLeast, Group::shown(figures.min, is_time))),
                Function::Max => _ = table.push(bound(Bound::AtMost, Group::shown(figures.max, is_time))),
                Function::Mean if is_time => _ = table.push(Group::time(group.mean())),
                Function::Mean => _ = table.push(Shown::Decimal(group.mean())),
                _ if group.count() == 0 => (0..5).for_each(|_| _ = table.push(Shown::Nothing)),
                Function::Latency | Function::Until | Function::Held => {
                    for time in [group.sum(), group.mean(), group.quantile(0.5), group.quantile(0.99)] {
                        table.push(Group::time(time));
                    }
                    table.push(bound(Bound::AtMost, Group::time(group.max())));
                }
            }
            if has_open {
                table.push(open::shown(&group.open, &self.threads));
            }
        }
        table
    }

    fn histogram<'a>(&'a self, group: &'a Group) -> Histogram<'a> {
        let shown = |number| Group::shown(Number::Int(number), group.is_time);
        let bucket = |(low, high, hits)| (shown(low), shown(high), hits);
        let keys = self.key_names().into_iter().zip(self.shown_keys(group));
        Histogram {
            path: group.path.as_str().into(),
            file: group.file.as_str().into(),
            line: group.line,
            keys: keys.map(|(name, key)| (name.into(), key.into())).collect(),
            hits: group.count(),
            buckets: group.buckets().into_iter().map(bucket).collect(),
        }
    }
}

impl Group {
    fn row(&self, function: Function) -> Row<'_> {
        let mut row = Row::new().with("probe", self.path.as_str()).with("file", self.file.as_str());
        row = row.with("line", self.line).with("others", self.is_others);
        row = row.with("keys", Cell::Texts(self.keys.clone()));
        for (name, cell) in self.figures(function) {
            row = row.with(name, cell);
        }
        if function.is_of_intervals() {
            row = row.with("open", self.open.iter().map(open::OpenInterval::row).collect::<Cell<'_>>());
        }
        if function == Function::Quantize {
            let bucket = |(low, high, hits): (i128, i128, u64)| {
                Row::new()
                    .with("from", Cell::Integer(low))
                    .with("to", Cell::Integer(high))
                    .with("count", hits)
            };
            row = row.with("buckets", self.buckets().into_iter().map(bucket).collect::<Cell<'_>>());
        }
        row
    }
}

impl ReportSource for Groups {
    fn head(&self) -> Row<'static> {
        let keys = self.key_names();
        head("aggregate", self.period)
            .with("aggregation", self.aggregation.to_string())
            .with("keys", Cell::Texts(keys))
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.rows.iter().map(|it| it.row(self.aggregation.function)))
    }

    fn rest(&self) -> Row<'_> {
        Row::new().with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        match self.aggregation.function {
            Function::Quantize => {
                Body::Histograms(self.rows.iter().map(|group| self.histogram(group)).collect())
            }
            _ => Body::Table(self.table()),
        }
    }

    fn untold(&self) -> Vec<String> {
        Groups::notes(self)
    }

    fn missing(&self) -> Vec<String> {
        Groups::notes(self)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

shown!(Groups);
