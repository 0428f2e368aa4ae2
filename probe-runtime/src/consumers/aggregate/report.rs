//! Groups as a table, as JSON and as CSV.

use std::fmt;

use super::AggregateFunction as Function;
use super::groups::{Group, Groups, Number};
use crate::report::{
    Cell, Csv, Row, RowDefinition, Rows, Table, Time, Written, decimal, document, footnotes, json, labels,
};

/// The width of the longest bar.
const BAR: usize = 40;

impl Group {
    fn shown(number: Number, is_time: bool) -> String {
        match number {
            Number::Int(it) => {
                let time = u64::try_from(it).ok().filter(|_| is_time);
                time.map_or_else(|| it.to_string(), |it| Time(it).to_string())
            }
            Number::Float(it) => decimal(it),
        }
    }

    fn time(number: f64) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive")]
        let time = number.round() as u64;
        Time(time).to_string()
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
            Function::Latency => figures.extend([
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
        json(self)
    }

    /// Returns a row for each group as comma-separated values, and for `quantize` one for each of
    /// its buckets.
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
            group.figures(self.aggregation.function).iter().for_each(|(_, cell)| _ = csv.cell(&cell.plain()));
            csv.end();
        }
        csv.finish()
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.aggregation.function;
        let names = self.key_names();
        let mut heading = vec!["probe"];
        heading.extend(names.iter().map(String::as_str));
        match function {
            Function::Latency => heading.extend(["calls", "total", "mean", "p50", "p99", "max"]),
            Function::Count | Function::Quantize => heading.push("count"),
            _ => heading.extend(["count", function.name()]),
        }
        let mut table = Table::new(&heading);
        for (group, label) in self.rows.iter().zip(self.labels()) {
            let mut row = vec![label];
            row.extend(self.shown_keys(group));
            row.push(group.count().to_string());
            let figures = &group.figures;
            let bound = |sign: &str, text: String| {
                if figures.are_bounds { format!("{sign} {text}") } else { text }
            };
            let is_time = group.is_time;
            let mean = if is_time { Group::time(group.mean()) } else { decimal(group.mean()) };
            match function {
                Function::Count | Function::Quantize => (),
                Function::Sum => row.push(Group::shown(figures.sum, is_time)),
                Function::Min => row.push(bound("≥", Group::shown(figures.min, is_time))),
                Function::Max => row.push(bound("≤", Group::shown(figures.max, is_time))),
                Function::Mean => row.push(mean),
                Function::Latency => {
                    let times = [group.sum(), group.mean(), group.quantile(0.5), group.quantile(0.99)];
                    row.extend(times.map(Group::time));
                    row.push(bound("≤", Group::time(group.max())));
                }
            }
            table.row(row);
        }
        fmt::Display::fmt(&table, f)
    }

    fn labels(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|it| RowDefinition { path: &it.path, file: &it.file, line: it.line });
        labels(rows.collect())
    }

    /// Writes a group's histogram: a line for each power of two.
    fn histogram(group: &Group, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = group.buckets();
        let most = buckets.iter().map(|(_, _, hits)| *hits).max().unwrap_or(1).max(1);
        let shown = |number| Group::shown(Number::Int(number), group.is_time);
        let mut table = Table::new(&["from", "to", "count", ""]);
        for (low, high, hits) in buckets {
            let bar = usize::try_from(u128::from(hits) * BAR as u128 / u128::from(most)).unwrap_or(BAR);
            table.row(vec![shown(low), shown(high), hits.to_string(), "█".repeat(bar.max(1))]);
        }
        for line in table.to_string().lines() {
            write!(f, "\n  {}", line.trim_end())?;
        }
        Ok(())
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

impl Written for Groups {
    fn head(&self) -> Row<'static> {
        let keys = self.key_names();
        document("aggregate", self.period)
            .with("aggregation", self.aggregation.to_string())
            .with("keys", Cell::Texts(keys))
    }

    fn rows(&self) -> Rows<'_> {
        Box::new(self.rows.iter().map(|it| it.row(self.aggregation.function)))
    }

    fn rest(&self) -> Row<'_> {
        Row::new().with("lost", self.lost)
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.aggregation.function == Function::Quantize {
            for (at, (group, label)) in self.rows.iter().zip(self.labels()).enumerate() {
                if at != 0 {
                    writeln!(f)?;
                }
                let keys = self.key_names().into_iter().zip(self.shown_keys(group));
                f.write_str(&label)?;
                keys.into_iter().try_for_each(|(name, key)| write!(f, " {name}={key}"))?;
                write!(f, ": {} hits", group.count())?;
                Self::histogram(group, f)?;
            }
            if self.rows.is_empty() {
                f.write_str("no hits")?;
            }
        } else {
            self.table(f)?;
        }
        footnotes(&self.notes(), f)
    }
}
