//! Every kind of `self`.

use std::pin::{Pin, pin};
use std::rc::Rc;

use probe_runtime::probe;

struct S(u32);

impl S {
    #[probe]
    fn by_value(self) -> u32 {
        self.0
    }

    #[probe]
    fn mutable_value(mut self) -> u32 {
        self.0 += 1;
        self.0
    }

    #[probe]
    fn by_ref(&self) -> u32 {
        probe!("inside", value = self.0);
        self.0
    }

    #[probe]
    fn by_mut(&mut self) {
        self.0 += 1;
        probe!("raised", value = self.0);
        self.0 += 1;
    }

    #[probe]
    fn boxed(self: Box<Self>) -> u32 {
        self.0
    }

    #[probe]
    fn counted(self: Rc<Self>) -> usize {
        Rc::strong_count(&self)
    }

    #[probe]
    fn pinned(self: Pin<&mut Self>) {
        self.get_mut().0 = 9;
    }

    #[probe]
    fn none() -> Self {
        Self(7)
    }
}

fn main() {
    assert_eq!(S(1).by_value(), 1);
    assert_eq!(S(1).mutable_value(), 2);
    assert_eq!(S(2).by_ref(), 2);
    let mut s = S(3);
    s.by_mut();
    assert_eq!(s.0, 5);
    assert_eq!(Box::new(S(4)).boxed(), 4);
    assert_eq!(Rc::new(S(5)).counted(), 1);
    let mut pinned = pin!(S(6));
    pinned.as_mut().pinned();
    assert_eq!(pinned.0, 9);
    assert_eq!(S::none().0, 7);
}
