//! An attribute around functions.

pub struct Strict(pub u32);

#[mac::flat]
impl Strict {
    pub fn next(&self) -> u32 {
        if self.0 == 7 {
            1
        } else {
            self.0.max(0) + 1
        }
    }
}
