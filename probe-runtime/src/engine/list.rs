//! Reports are lists of rows, with a few methods of a slice's: all of these would hide the report's
//! own in its documentation.

/// `list!(Report, field, Row, "what the rows are")`.
macro_rules! list {
    ($report:ident, $field:tt, $row:ident, $rows:literal) => {
        impl $report {
            #[doc = concat!("All ", $rows, ", as a slice.")]
            pub fn as_slice(&self) -> &[$row] {
                &self.$field
            }

            #[doc = concat!("The ", $rows, ", one after the other.")]
            pub fn iter(&self) -> std::slice::Iter<'_, $row> {
                self.$field.iter()
            }

            #[doc = concat!("How many ", $rows, " there are.")]
            pub fn len(&self) -> usize {
                self.$field.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.$field.is_empty()
            }
        }

        impl<'a> IntoIterator for &'a $report {
            type Item = &'a $row;
            type IntoIter = std::slice::Iter<'a, $row>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl std::ops::Index<usize> for $report {
            type Output = $row;

            fn index(&self, at: usize) -> &$row {
                &self.$field[at]
            }
        }
    };
}

pub(crate) use list;
