//! Markers, and their types: one for each list of fields. Values are text, as in tables, since the
//! profiler's numbers lack digits; a counter's value is a number, of which the profiler makes a
//! graph.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use fx::{CategoryHandle, Marker, MarkerFieldFlags, MarkerFieldFormat, MarkerGraphType, MarkerLocations};
use fx::{MarkerTypeHandle, Profile, RuntimeSchemaMarkerField, RuntimeSchemaMarkerGraph};
use fx::{RuntimeSchemaMarkerSchema, StringHandle};
use fxprof_processed_profile as fx;

use crate::item::FieldValue;

/// A field's value.
pub(super) enum Value {
    Text(String),
    Number(f64),
}

impl Value {
    pub(super) fn counted(value: &FieldValue) -> Self {
        match value {
            FieldValue::U64(value) => Self::Number(*value as f64),
            FieldValue::I64(value) => Self::Number(*value as f64),
            FieldValue::F64(value) if value.is_finite() => Self::Number(*value),
            other => Self::Text(other.to_string()),
        }
    }
}

/// The types of markers, by their fields: each with its name, and whether it is a number.
#[derive(Default)]
pub(super) struct Markers {
    types: HashMap<Vec<(String, bool)>, MarkerTypeHandle>,
}

/// A marker, in the words of its profile.
pub(super) struct ProbeMarker {
    ty: MarkerTypeHandle,
    name: StringHandle,
    category: CategoryHandle,
    values: Vec<CellValue>,
}

enum CellValue {
    Text(StringHandle),
    Number(f64),
}

impl Markers {
    /// Makes a marker with these fields.
    pub(super) fn marker(
        &mut self,
        profile: &mut Profile,
        name: &str,
        category: CategoryHandle,
        fields: Vec<(String, Value)>,
    ) -> ProbeMarker {
        let (mut list, mut values) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
        for (name, value) in fields {
            list.push((name, matches!(value, Value::Number(_))));
            values.push(match value {
                Value::Text(text) => CellValue::Text(profile.intern_string(&text)),
                Value::Number(number) => CellValue::Number(number),
            });
        }
        let number = self.types.len();
        let ty = *self.types.entry(list).or_insert_with_key(|list| {
            // Its name is seen in JSON alone.
            profile.register_marker_type(schema(format!("probe-{number}"), list))
        });
        ProbeMarker { ty, name: profile.intern_string(name), category, values }
    }
}

impl Marker for ProbeMarker {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.ty
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        match self.values[field as usize] {
            CellValue::Text(text) => text,
            CellValue::Number(_) => unreachable!("its type says which it is"),
        }
    }

    fn number_field_value(&self, field: u32) -> f64 {
        match self.values[field as usize] {
            CellValue::Text(_) => unreachable!("its type says which it is"),
            CellValue::Number(number) => number,
        }
    }
}

fn schema(type_name: String, list: &[(String, bool)]) -> RuntimeSchemaMarkerSchema {
    let (mut fields, mut label) = (Vec::with_capacity(list.len()), String::new());
    // These are the format's own.
    let mut used = HashSet::from(["type".to_owned(), "cause".to_owned()]);
    for (number, (name, is_number)) in list.iter().enumerate() {
        let mut key = name.replace(['.', '{', '}'], "_");
        // A call's entry and its exit may have fields of one name.
        while !used.insert(key.clone()) {
            let _ = write!(key, "_{number}");
        }
        let _ = write!(label, " {name}={{marker.data.{key}}}");
        fields.push(RuntimeSchemaMarkerField {
            key,
            label: name.clone(),
            format: if *is_number { MarkerFieldFormat::Decimal } else { MarkerFieldFormat::String },
            flags: MarkerFieldFlags::SEARCHABLE,
        });
    }
    let numbers = list.iter().zip(&fields).filter(|((_, is_number), _)| *is_number);
    let graph = |(_, field): (_, &RuntimeSchemaMarkerField)| RuntimeSchemaMarkerGraph {
        key: field.key.clone(),
        graph_type: MarkerGraphType::Line,
        color: None,
    };
    RuntimeSchemaMarkerSchema {
        type_name,
        description: None,
        locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE,
        chart_label: Some(label.trim_start().to_owned()),
        tooltip_label: None,
        table_label: Some(format!("{{marker.name}}{label}")),
        graphs: numbers.map(graph).collect(),
        fields,
    }
}
