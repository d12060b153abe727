//! A frame: its header, its kinds and its checksum.

use super::bytes::{Body, put_key, put_name, put_u16, put_u32, put_u64};
use super::fault::{BadFrame, VERSION};
use super::parts::{Asked, asked, copy, effect, put_asked, put_copy, put_effect, put_told, told};
use crate::slot::{Message, Told};
use crate::view::{NodeId, SLOTS, View};

/// The longest frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// The longest hello, in bytes: a node accepts nothing longer before it knows the peer.
pub const HELLO_BYTES_MAX: usize = 2 << 10;

/// The number in the hello of a front-end, which is no node. It dials a node's address for peers. Frames then go both ways
/// on that one link.
pub const FRONT_END: NodeId = NodeId::MAX;

/// The bytes before those that the length counts: the length and the checksum.
const PREFIX_BYTES: usize = 8;
const HEADER_BYTES: usize = 24;
const MAGIC: &[u8; 8] = b"guira/1\n";

/// The first frame on a link: it identifies the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHello {
    /// The cluster's name.
    pub cluster: String,
    /// The node's number.
    pub node: NodeId,
    /// The name that operators gave the node.
    pub name: String,
    /// The run of the node's process, drawn at its start.
    pub run: String,
    /// The epoch of the view that the node knows, or 0 if it knows none.
    pub epoch: u64,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerFrame {
    /// The first frame in each direction of a link.
    Hello(PeerHello),
    /// A message for a slot, from a member of its chain.
    Slot {
        /// The slot.
        slot: u16,
        /// The slot's epoch, as the sender knows it.
        epoch: u64,
        /// The message.
        message: Message,
    },
    /// Asks for a promise.
    Renew {
        /// The epoch of the sender's view.
        epoch: u64,
        /// When the sender asks, by its own clock, in microseconds.
        asked: u64,
        /// The run of the sender's process.
        run: String,
        /// Whether clients may keep values by holds that the sender granted by older views.
        has_old_holds: bool,
    },
    /// A promise; the answer to the [`PeerFrame::Renew`] with the same `asked` and `run`.
    Granted {
        /// When the promise was asked for, by the asker's clock.
        asked: u64,
        /// The run of the process that asked.
        run: String,
    },
    /// Asks for the view that the receiver knows.
    AskView,
    /// A view.
    View(Box<View>),
    /// A request for a slot, on behalf of a client of the sender.
    Ask {
        /// The slot.
        slot: u16,
        /// The slot's epoch, as the sender knows it.
        epoch: u64,
        /// The request's number. The answer repeats it.
        number: u64,
        /// The request.
        asked: Asked,
    },
    /// The answer to the [`PeerFrame::Ask`] with this number.
    Told {
        /// The request's number.
        number: u64,
        /// The answer.
        told: Told,
    },
    /// A front-end asks a reader for a hold of a key.
    Hold {
        /// The slot.
        slot: u16,
        /// The slot's epoch, as the front-end knows it.
        epoch: u64,
        /// The hold's number. The answer repeats it. A front-end's numbers rise.
        number: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// The answer to the [`PeerFrame::Hold`] with this number.
    Held {
        /// The hold's number.
        number: u64,
        /// How long the front-end may keep the value, in microseconds, from when it asked. 0: not at all.
        term: u64,
    },
    /// Asks a front-end to drop what it keeps of a key.
    Invalidate {
        /// The slot.
        slot: u16,
        /// The number of the front-end's last hold of the key.
        number: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// The answer to the [`PeerFrame::Invalidate`] with the same parts: the value is dropped.
    Invalidated {
        /// The slot.
        slot: u16,
        /// The number.
        number: u64,
        /// The key.
        key: Vec<u8>,
    },
}

/// What the first bytes of an input are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framed {
    /// Not a whole frame yet: the frame has at least `at_least` bytes.
    Incomplete {
        /// Always more than the input has.
        at_least: usize,
    },
    /// A frame.
    Whole {
        /// The frame.
        frame: Box<PeerFrame>,
        /// The number of bytes that it takes.
        used: usize,
    },
}

impl PeerFrame {
    /// Appends the frame to `out`. Cost: a copy of keys and values, and a checksum of the frame.
    ///
    /// # Errors
    /// [`BadFrame::TooLong`] if the frame or a part of it is too long. Then `out` is as before.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), BadFrame> {
        let start = out.len();
        let done = self.put(out, start);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    fn put(&self, out: &mut Vec<u8>, start: usize) -> Result<(), BadFrame> {
        let (slot, epoch) = match self {
            Self::Hello(hello) => (0, hello.epoch),
            Self::Slot { slot, epoch, .. } => (*slot, *epoch),
            Self::Renew { epoch, .. } => (0, *epoch),
            Self::Ask { slot, epoch, .. } | Self::Hold { slot, epoch, .. } => (*slot, *epoch),
            Self::Invalidate { slot, .. } | Self::Invalidated { slot, .. } => (*slot, 0),
            Self::Held { .. } => (0, 0),
            Self::Granted { .. } | Self::AskView | Self::View(_) | Self::Told { .. } => (0, 0),
        };
        let version = version_of(self.kind());
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        out.extend_from_slice(&[version, self.kind()]);
        put_u16(out, slot);
        put_u32(out, 0);
        put_u64(out, epoch);
        self.put_body(out)?;
        let most = if self.kind() == 0 { HELLO_BYTES_MAX } else { FRAME_BYTES_MAX };
        let bytes = out.len() - start;
        let counted = u32::try_from(bytes - PREFIX_BYTES).ok().filter(|_| bytes <= most);
        let counted = counted.ok_or(BadFrame::TooLong("frame", bytes, most))?;
        let checksum = crc32c::crc32c(&out[start + PREFIX_BYTES..]);
        out[start..start + 4].copy_from_slice(&counted.to_le_bytes());
        out[start + 4..start + PREFIX_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Ok(())
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 0,
            Self::Slot { message, .. } => match message {
                Message::Effect(_) => 1,
                Message::Durable(_) => 2,
                Message::Ack(_) => 3,
                Message::State(_) => 4,
                Message::Copy(_) => 5,
            },
            Self::Renew { has_old_holds: false, .. } => 6,
            Self::Renew { has_old_holds: true, .. } => 12,
            Self::Granted { .. } => 7,
            Self::AskView => 8,
            Self::View(_) => 9,
            Self::Ask { .. } => 10,
            Self::Told { .. } => 11,
            Self::Hold { .. } => 13,
            Self::Held { .. } => 14,
            Self::Invalidate { .. } => 15,
            Self::Invalidated { .. } => 16,
        }
    }

    fn put_body(&self, out: &mut Vec<u8>) -> Result<(), BadFrame> {
        match self {
            Self::Hello(hello) => {
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&[VERSION, VERSION]);
                put_u32(out, hello.node);
                put_name(out, &hello.cluster, "cluster's name")?;
                put_name(out, &hello.name, "node's name")?;
                put_name(out, &hello.run, "run")?;
            }
            Self::Slot { message, .. } => match message {
                Message::Effect(effect) => put_effect(out, effect)?,
                Message::Durable(upto) | Message::Ack(upto) => put_u64(out, *upto),
                Message::State(None) => {}
                Message::State(Some(last)) => put_u64(out, *last),
                Message::Copy(copy) => put_copy(out, copy)?,
            },
            Self::Renew { asked, run, .. } | Self::Granted { asked, run } => {
                put_u64(out, *asked);
                put_name(out, run, "run")?;
            }
            Self::AskView => {}
            Self::View(view) => out.extend_from_slice(view.to_json().as_bytes()),
            Self::Ask { number, asked, .. } => {
                put_u64(out, *number);
                put_asked(out, asked)?;
            }
            Self::Told { number, told } => {
                put_u64(out, *number);
                put_told(out, told)?;
            }
            Self::Held { number, term } => {
                put_u64(out, *number);
                put_u64(out, *term);
            }
            Self::Hold { number, key, .. }
            | Self::Invalidate { number, key, .. }
            | Self::Invalidated { number, key, .. } => {
                put_u64(out, *number);
                put_key(out, key)?;
            }
        }
        Ok(())
    }
}

/// Returns the version that a frame of `kind` carries. A hello's layout never changes, so its version stays 0.
fn version_of(kind: u8) -> u8 {
    if kind == 0 { 0 } else { VERSION }
}

/// Parses the frame at the front of `input`, which may have at most `most` bytes.
///
/// # Errors
/// The fault of the frame. The first four bytes already reveal a length that is too great, so no caller waits for such
/// a frame. After an error nothing marks where the next frame begins: the caller must end the link.
pub fn parse_frame(input: &[u8], most: usize) -> Result<Framed, BadFrame> {
    let Some((length, rest)) = input.split_first_chunk() else {
        return Ok(Framed::Incomplete { at_least: HEADER_BYTES });
    };
    let counted = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let used = counted.saturating_add(PREFIX_BYTES);
    if used > most {
        return Err(BadFrame::TooLong("frame", used, most));
    }
    if used < HEADER_BYTES {
        return Err(BadFrame::TooShort(used));
    }
    let (Some((said, _)), Some(counted)) =
        (rest.split_first_chunk(), input.get(PREFIX_BYTES..used))
    else {
        return Ok(Framed::Incomplete { at_least: used });
    };
    let (said, is) = (u32::from_le_bytes(*said), crc32c::crc32c(counted));
    if said != is {
        return Err(BadFrame::Checksum(said, is));
    }
    Ok(Framed::Whole { frame: Box::new(frame(counted)?), used })
}

/// Parses the bytes behind a checksum that was right.
fn frame(counted: &[u8]) -> Result<PeerFrame, BadFrame> {
    let mut body = Body(counted);
    let (version, kind) = (body.u8("header")?, body.u8("header")?);
    let (slot, reserved) = (body.u16("header")?, body.u32("header")?);
    let epoch = body.u64("header")?;
    if version != version_of(kind) {
        return Err(BadFrame::Version(version));
    }
    if reserved != 0 {
        return Err(BadFrame::Reserved(reserved));
    }
    if slot >= SLOTS || slot != 0 && matches!(kind, 0 | 6..=9 | 11 | 12 | 14) {
        return Err(BadFrame::Slot(slot));
    }
    if epoch != 0 && matches!(kind, 7..=9 | 11 | 14..=16) {
        return Err(BadFrame::Epoch(epoch));
    }
    let message = match kind {
        0 => return hello(body, epoch),
        1 => Message::Effect(effect(&mut body)?),
        2 => Message::Durable(body.u64("number")?),
        3 => Message::Ack(body.u64("number")?),
        4 if body.0.is_empty() => Message::State(None),
        4 => Message::State(Some(body.u64("number")?)),
        5 => Message::Copy(Box::new(copy(&mut body)?)),
        6 | 7 | 12 => {
            let (asked, run) = (body.u64("time")?, body.name("run")?);
            body.end()?;
            return Ok(match kind {
                7 => PeerFrame::Granted { asked, run },
                _ => PeerFrame::Renew { epoch, asked, run, has_old_holds: kind == 12 },
            });
        }
        8 => return body.end().map(|()| PeerFrame::AskView),
        9 => {
            let text = str::from_utf8(body.0).map_err(|_| BadFrame::NoText("view"))?;
            let view = View::from_json(text).map_err(BadFrame::View)?;
            return Ok(PeerFrame::View(Box::new(view)));
        }
        10 => {
            let (number, asked) = (body.u64("number")?, asked(&mut body)?);
            body.end()?;
            return Ok(PeerFrame::Ask { slot, epoch, number, asked });
        }
        11 => {
            let (number, told) = (body.u64("number")?, told(&mut body)?);
            body.end()?;
            return Ok(PeerFrame::Told { number, told });
        }
        13..=16 => return front_ends(body, kind, (slot, epoch)),
        _ => return Err(BadFrame::Kind(kind)),
    };
    body.end()?;
    Ok(PeerFrame::Slot { slot, epoch, message })
}

/// Parses a frame between a reader and a front-end that keeps values.
fn front_ends(
    mut body: Body<'_>,
    kind: u8,
    (slot, epoch): (u16, u64),
) -> Result<PeerFrame, BadFrame> {
    let number = body.u64("number")?;
    if kind == 14 {
        let term = body.u64("term")?;
        return body.end().map(|()| PeerFrame::Held { number, term });
    }
    let key = body.key()?;
    body.end()?;
    Ok(match kind {
        13 => PeerFrame::Hold { slot, epoch, number, key },
        15 => PeerFrame::Invalidate { slot, number, key },
        _ => PeerFrame::Invalidated { slot, number, key },
    })
}

fn hello(mut body: Body<'_>, epoch: u64) -> Result<PeerFrame, BadFrame> {
    if body.take(MAGIC.len(), "magic") != Ok(&MAGIC[..]) {
        return Err(BadFrame::Foreign);
    }
    let (min, max) = (body.u8("versions")?, body.u8("versions")?);
    if !(min..=max).contains(&VERSION) {
        return Err(BadFrame::Versions(min, max));
    }
    let node = body.u32("node")?;
    let cluster = body.name("cluster's name")?;
    let (name, run) = (body.name("node's name")?, body.name("run")?);
    // The hello of a newer version may have more parts.
    if max == VERSION {
        body.end()?;
    }
    Ok(PeerFrame::Hello(PeerHello { cluster, node, name, run, epoch }))
}
