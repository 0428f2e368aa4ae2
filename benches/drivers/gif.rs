//! Writes and reads animated pictures, shaded by a text's bytes, in gray and in colours with a
//! computed palette.

use gif::{ColorOutput, DecodeOptions, Encoder, Frame};

pub fn work(text: &str, times: u64) -> usize {
    (0..times).map(|_| once(text.as_bytes())).sum()
}

fn once(shades: &[u8]) -> usize {
    let mut packed = 0;
    for size in [16_u16, 40, 100] {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, size, size, &[]).expect("memory");
        let pixels = usize::from(size) * usize::from(size);
        for shift in [0, 1_000] {
            let gray: Vec<u8> = shades[shift..][..pixels].iter().map(|it| it / 8).collect();
            let palette: Vec<u8> = (0..32).flat_map(|it| [8 * it; 3]).collect();
            let frame = Frame::from_palette_pixels(size, size, gray, palette, None);
            encoder.write_frame(&frame).expect("memory");
            let color = |at: usize| [at as u8, (at / usize::from(size)) as u8, shades[shift + at]];
            let colors: Vec<u8> = (0..pixels).flat_map(color).collect();
            encoder.write_frame(&Frame::from_rgb_speed(size, size, &colors, 30)).expect("memory");
        }
        drop(encoder);
        packed += file.len();
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::RGBA);
        let mut decoder = options.read_info(&file[..]).expect("what was written");
        while let Some(frame) = decoder.read_next_frame().expect("what was written") {
            packed += frame.buffer.iter().filter(|it| **it > 127).count();
        }
    }
    packed
}
