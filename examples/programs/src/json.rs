//! Reads a large JSON file with `serde_json` into this program's own types, whose visitors it calls
//! back.
//!
//! The file is generated: documents of a thousand orders each, one document a line.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::probe;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::{Done, Program, on_threads};

/// The program; a unit of work is one document. Threads read the documents of the file in rotation.
pub const PROGRAM: Program =
    Program { name: "json", probes: "probe_programs::json::**", unit: "documents", work: 100, run };

/// Number of documents in the file, and of orders in each.
const DOCUMENTS: u64 = 8;
const ORDERS: u64 = 1_000;

/// A customer's order.
#[derive(PartialEq, Eq, Debug)]
struct Order {
    id: u64,
    customer: String,
    items: Vec<Item>,
    note: Option<String>,
}

#[derive(PartialEq, Eq, Debug)]
struct Item {
    name: String,
    count: u64,
    cents: u64,
}

/// A key of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Id,
    Customer,
    Items,
    Note,
    Name,
    Count,
    Cents,
    Unknown,
}

struct OrderVisitor;
struct ItemVisitor;
struct KeyVisitor;

#[probe(all)]
impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OrderVisitor)
    }
}

#[probe(all)]
impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ItemVisitor)
    }
}

#[probe(all)]
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

#[probe(all)]
impl<'de> Visitor<'de> for OrderVisitor {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an order")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut order = Order { id: 0, customer: String::new(), items: Vec::new(), note: None };
        while let Some(key) = map.next_key()? {
            match key {
                Key::Id => order.id = map.next_value()?,
                Key::Customer => order.customer = map.next_value()?,
                Key::Items => order.items = map.next_value()?,
                Key::Note => order.note = map.next_value()?,
                _ => {
                    let _: IgnoredAny = map.next_value()?;
                }
            }
        }
        if order.id == 0 { Err(A::Error::missing_field("id")) } else { Ok(order) }
    }
}

#[probe(all)]
impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        let mut item = Item { name: String::new(), count: 0, cents: 0 };
        while let Some(key) = map.next_key()? {
            match key {
                Key::Name => item.name = map.next_value()?,
                Key::Count => item.count = map.next_value()?,
                Key::Cents => item.cents = map.next_value()?,
                _ => {
                    let _: IgnoredAny = map.next_value()?;
                }
            }
        }
        Ok(item)
    }
}

#[probe(all)]
impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        Ok(match name {
            "id" => Key::Id,
            "customer" => Key::Customer,
            "items" => Key::Items,
            "note" => Key::Note,
            "name" => Key::Name,
            "count" => Key::Count,
            "cents" => Key::Cents,
            _ => Key::Unknown,
        })
    }
}

#[probe(all)]
impl Order {
    /// Returns the price of all items, in cents.
    fn cents(&self) -> u64 {
        self.items.iter().map(|item| item.count * item.cents).sum()
    }

    /// Returns the number of characters in all of its texts.
    fn letters(&self) -> usize {
        let of_items: usize = self.items.iter().map(|item| item.name.chars().count()).sum();
        self.customer.chars().count() + self.note.as_ref().map_or(0, |note| note.chars().count()) + of_items
    }
}

/// Returns the number of items of an order.
#[probe]
fn items_of(order: u64) -> u64 {
    order % 5 + 1
}

#[probe]
fn write_order(json: &mut String, id: u64) -> fmt::Result {
    // The text has characters that need escapes, in both forms, and characters that need none.
    write!(json, r#"{{"id":{id},"customer":"J\u00f6rg \"{}\" Müller","items":["#, id % 97)?;
    for item in 0..items_of(id) {
        let comma = if item == 0 { "" } else { "," };
        let (count, cents) = (id % 3 + 1, 95 + 7 * item);
        write!(json, r#"{comma}{{"name":"part {item}/{id}","count":{count},"cents":{cents}}}"#)?;
    }
    let note = if id.is_multiple_of(4) { r#""as\tsoon as\npossible""# } else { "null" };
    write!(json, r#"],"weight":{}.25e-1,"note":{note}}}"#, id % 50)
}

/// Returns one line of the file.
#[probe]
fn write_document(document: u64) -> Result<String, fmt::Error> {
    let mut json = String::from("[");
    for order in document * ORDERS..(document + 1) * ORDERS {
        if json.len() > 1 {
            json.push(',');
        }
        write_order(&mut json, order + 1)?;
    }
    json.push(']');
    Ok(json)
}

/// Totals of the orders that were read.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    orders: u64,
    items: u64,
    cents: u64,
    letters: usize,
}

#[probe]
fn read_document(json: &str) -> Result<Sum, serde_json::Error> {
    let orders: Vec<Order> = serde_json::from_str(json)?;
    Ok(orders.iter().fold(Sum::default(), |sum, order| Sum {
        orders: sum.orders + 1,
        items: sum.items + order.items.len() as u64,
        cents: sum.cents + order.cents(),
        letters: sum.letters + order.letters(),
    }))
}

/// Reads documents until none are left. Each thread runs this once.
#[probe]
fn work(file: &[String], next: &AtomicU64, documents: u64) -> Sum {
    let mut all = Sum::default();
    loop {
        let document = next.fetch_add(1, Ordering::Relaxed);
        let line = file.iter().cycle().nth(usize::try_from(document % DOCUMENTS).unwrap_or_default());
        let Some(line) = line.filter(|_| document < documents) else { return all };
        let sum = read_document(line).expect("this program has written it");
        all = add(all, sum);
    }
}

#[probe]
fn add(one: Sum, other: Sum) -> Sum {
    Sum {
        orders: one.orders + other.orders,
        items: one.items + other.items,
        cents: one.cents + other.cents,
        letters: one.letters + other.letters,
    }
}

#[probe]
fn run(documents: u64, threads: usize) -> Done {
    let file: Vec<_> =
        (0..DOCUMENTS).map(|document| write_document(document).expect("a string has room")).collect();
    let next = AtomicU64::new(0);
    let sums = on_threads(threads, |_| work(&file, &next, documents));
    let Sum { orders, items, cents, letters } = sums.into_iter().fold(Sum::default(), add);
    let keys = 5 * orders + 3 * items;
    Done {
        result: format!("{orders} orders of {items} items cost {cents} cents, in {letters} letters"),
        calls: vec![
            ("run", 1),
            ("work", threads as u64),
            ("write_document", DOCUMENTS),
            ("write_order", DOCUMENTS * ORDERS),
            ("items_of", DOCUMENTS * ORDERS),
            ("read_document", documents),
            ("add", documents + threads as u64),
            ("Order::deserialize", orders),
            ("Order::cents", orders),
            ("Order::letters", orders),
            ("OrderVisitor::visit_map", orders),
            ("Item::deserialize", items),
            ("ItemVisitor::visit_map", items),
            ("Key::deserialize", keys),
            ("KeyVisitor::visit_str", keys),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_written() {
        let mut json = String::new();
        write_order(&mut json, 4).unwrap();
        let item = |n: u64| Item { name: format!("part {n}/4"), count: 2, cents: 95 + 7 * n };
        let expected = Order {
            id: 4,
            customer: "Jörg \"4\" Müller".to_owned(),
            items: (0..5).map(item).collect(),
            note: Some("as\tsoon as\npossible".to_owned()),
        };
        assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), expected);
        let error = serde_json::from_str::<Order>("[]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: sequence, expected an order"), "{error}");
        assert!(serde_json::from_str::<Order>("{}").unwrap_err().to_string().contains("missing field `id`"));
    }
}
