//! Small files of sounds, made here.

/// A sine of half the full scale.
pub fn tone(rate: u32, hertz: f64, seconds: f64) -> Vec<i16> {
    let step = std::f64::consts::TAU * hertz / f64::from(rate);
    (0..(f64::from(rate) * seconds) as usize).map(|i| ((step * i as f64).sin() * 16_384.0) as i16).collect()
}

/// PCM of 16 bits, channels after each other in each frame.
pub fn wav(samples: &[i16], channels: u16, rate: u32) -> Vec<u8> {
    let len = samples.len() as u32 * 2;
    let mut out = b"RIFF".to_vec();
    out.extend((36 + len).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend((rate * u32::from(channels) * 2).to_le_bytes());
    out.extend((channels * 2).to_le_bytes());
    out.extend(16u16.to_le_bytes());
    out.extend(b"data");
    out.extend(len.to_le_bytes());
    out.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    out
}

/// Bits into bytes, each number's highest first or its lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
    lowest_first: bool,
}

impl Bits {
    fn put_all(&mut self, values: &[(u64, usize)]) {
        values.iter().for_each(|(value, bits)| self.put(*value, *bits));
    }

    fn put(&mut self, value: u64, bits: usize) {
        for i in 0..bits {
            let bit = if self.lowest_first { value >> i } else { value >> (bits - 1 - i) } & 1;
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let at = if self.lowest_first { self.used % 8 } else { 7 - self.used % 8 };
            *self.bytes.last_mut().unwrap() |= (bit as u8) << at;
            self.used += 1;
        }
    }
}

fn crc(bytes: &[u8], polynomial: u32, bits: u32) -> u32 {
    let (top, mask) = (1u32 << (bits - 1), u32::MAX >> (32 - bits));
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte) << (bits - 8), |crc, _| {
            let shifted = (crc << 1) & mask;
            if crc & top != 0 {
                shifted ^ polynomial
            } else {
                shifted
            }
        })
    };
    bytes.iter().fold(0, step)
}

/// One channel of 16 bits, samples as they are.
pub fn flac(samples: &[i16], rate: u32) -> Vec<u8> {
    const BLOCK: usize = 1_024;
    let mut out = b"fLaC\x80\0\0\x22".to_vec();
    let mut info = Bits::default();
    info.put_all(&[(BLOCK as u64, 16), (BLOCK as u64, 16), (0, 24), (0, 24)]);
    info.put_all(&[(u64::from(rate), 20), (0, 3), (15, 5), (samples.len() as u64, 36)]);
    let data: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    out.extend(info.bytes);
    out.extend(md5(&data));
    for (i, block) in samples.chunks(BLOCK).enumerate() {
        let mut frame = Bits::default();
        // Sync and fixed blocks; the length in 16 bits behind, the rate and size of the header's.
        frame.put_all(&[(0x3ffe, 14), (0, 2), (7, 4), (0, 4), (0, 4), (0, 3), (0, 1)]);
        assert!(i < 128, "a number of one byte");
        frame.put(i as u64, 8);
        frame.put(block.len() as u64 - 1, 16);
        frame.put(u64::from(crc(&frame.bytes, 0x07, 8)), 8);
        frame.put(0b0000_0010, 8);
        block.iter().for_each(|s| frame.put(*s as u16 as u64, 16));
        let sum = crc(&frame.bytes, 0x8005, 16);
        frame.put(u64::from(sum), 16);
        out.extend(frame.bytes);
    }
    out
}

fn md5(data: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut bytes = data.to_vec();
    bytes.push(0x80);
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
    bytes.extend((data.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for chunk in bytes.chunks(64) {
        let word = |i: usize| u32::from_le_bytes(chunk[4 * i..4 * i + 4].try_into().unwrap());
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (f, g) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let sine = ((i as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(f).wrapping_add(sine).wrapping_add(word(g));
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4])));
        }
        for (s, v) in state.iter_mut().zip([a, b, c, d]) {
            *s = s.wrapping_add(v);
        }
    }
    let mut out = [0; 16];
    state.iter().enumerate().for_each(|(i, s)| out[4 * i..4 * i + 4].copy_from_slice(&s.to_le_bytes()));
    out
}

/// Frames of one channel at 44,100 samples a second and 128 kbit/s: silence, or one line of the spectrum.
pub fn mp3(frames: usize, loud: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..frames {
        let mut frame = Bits::default();
        frame.put(0xfffb_90c0, 32);
        // Where main data begins, private bits, which scale factors are shared.
        frame.put_all(&[(0, 9), (0, 5), (0, 4)]);
        // Ten groups of four zeros, then one with a 1 and its sign.
        let bits = if loud { 10 * 4 + 5 } else { 0 };
        for _ in 0..2 {
            // Length, big values, gain, lengths of scale factors, no windows of their own.
            frame.put_all(&[(bits, 12), (0, 9), (200, 8), (0, 4), (0, 1)]);
            // Tables, where regions end, flags; the last says that groups of four have four bits.
            frame.put_all(&[(0, 15), (0, 4), (0, 3), (0, 1), (0, 1), (1, 1)]);
        }
        if loud {
            for _ in 0..2 {
                (0..10).for_each(|_| frame.put(0b1111, 4));
                frame.put(0b0111, 4);
                frame.put(0, 1);
            }
        }
        frame.bytes.resize(417, 0);
        out.extend(frame.bytes);
    }
    out
}

fn page(out: &mut Vec<u8>, packets: &[Vec<u8>], flags: u8, granule: u64, number: u32) {
    let mut page = b"OggS\0".to_vec();
    page.push(flags);
    page.extend(granule.to_le_bytes());
    page.extend(7u32.to_le_bytes());
    page.extend(number.to_le_bytes());
    page.extend([0; 4]);
    let lengths =
        |p: &Vec<u8>| std::iter::repeat_n(255, p.len() / 255).chain([(p.len() % 255) as u8]).collect::<Vec<u8>>();
    let lengths: Vec<u8> = packets.iter().flat_map(lengths).collect();
    page.push(lengths.len() as u8);
    page.extend(lengths);
    packets.iter().for_each(|p| page.extend(p));
    let sum = crc(&page, 0x04c1_1db7, 32);
    page[22..26].copy_from_slice(&sum.to_le_bytes());
    out.extend(page);
}

/// Packets of one channel at 16,000 samples a second, blocks of 256 samples, without a residue.
pub fn vorbis(packets: usize) -> Vec<u8> {
    const BLOCK: u64 = 256;
    let mut id = b"\x01vorbis\0\0\0\0\x01".to_vec();
    id.extend(16_000u32.to_le_bytes());
    id.extend([0; 12]);
    id.extend([0x88, 1]);
    let comment = b"\x03vorbis\0\0\0\0\0\0\0\0\x01".to_vec();
    let mut setup = Bits { lowest_first: true, ..Bits::default() };
    b"\x05vorbis".iter().for_each(|b| setup.put(u64::from(*b), 8));
    // One codebook of two words of one bit, without values.
    setup.put(0, 8);
    setup.put_all(&[(0x56_4342, 24), (1, 16), (2, 24), (0, 1), (0, 1), (0, 5), (0, 5), (0, 4)]);
    // A transform in time that is none.
    setup.put_all(&[(0, 6), (0, 16)]);
    // One floor of lines without partitions: multiplier 1, 7 bits of range.
    setup.put_all(&[(0, 6), (1, 16), (0, 5), (0, 2), (7, 4)]);
    // One residue over nothing: begin, end, size of partitions, classes, their book, which passes.
    setup.put_all(&[(0, 6), (0, 16), (0, 24), (0, 24), (0, 24), (0, 6), (0, 8), (0, 3), (0, 1)]);
    // One mapping and one mode.
    setup.put_all(&[(0, 6), (0, 16), (0, 1), (0, 1), (0, 2), (0, 8), (0, 8), (0, 8)]);
    setup.put_all(&[(0, 6), (0, 1), (0, 16), (0, 16), (0, 8), (1, 1)]);
    let mut audio = Bits { lowest_first: true, ..Bits::default() };
    // An audio packet of the mode, a floor with both of its ends.
    audio.put_all(&[(0, 1), (1, 1), (200, 8), (200, 8)]);
    let mut out = Vec::new();
    page(&mut out, &[id], 2, 0, 0);
    page(&mut out, &[comment, setup.bytes], 0, 0, 1);
    let audio = vec![audio.bytes; packets];
    page(&mut out, &audio, 4, (packets as u64).saturating_sub(1) * BLOCK / 2, 2);
    out
}
