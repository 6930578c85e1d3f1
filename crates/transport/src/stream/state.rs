//! The two state machines of a stream (RFC 9000 §3), as transition tables.

/// The sending half (RFC 9000 §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendState {
    /// Open, and nothing has been sent.
    #[default]
    Ready,
    /// Something has been sent, but not the end.
    Send,
    /// All data, including the end, has been sent at least once.
    DataSent,
    /// RESET_STREAM has been sent or is about to be.
    ResetSent,
    /// The peer has acknowledged all data and the end.
    DataRecvd,
    /// The peer has acknowledged RESET_STREAM.
    ResetRecvd,
}

/// Input to the state machine of the sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendInput {
    /// A STREAM or STREAM_DATA_BLOCKED frame is sent.
    Frame,
    /// A STREAM frame with FIN is sent.
    Fin,
    /// The application resets the stream, or the peer requests it with STOP_SENDING.
    Reset,
    /// All data and FIN are acknowledged.
    AllAcked,
    /// RESET_STREAM is acknowledged.
    ResetAcked,
}

impl SendState {
    /// Returns the next state; `None` if the input does not apply and nothing changes.
    pub(crate) fn on(self, input: SendInput) -> Option<Self> {
        use SendInput::{AllAcked, Fin, Frame, Reset, ResetAcked};
        match (self, input) {
            (Self::Ready, Frame) => Some(Self::Send),
            (Self::Ready | Self::Send, Fin) => Some(Self::DataSent),
            (Self::Ready | Self::Send | Self::DataSent, Reset) => Some(Self::ResetSent),
            (Self::DataSent, AllAcked) => Some(Self::DataRecvd),
            (Self::ResetSent, ResetAcked) => Some(Self::ResetRecvd),
            _ => None,
        }
    }

    /// Returns whether STREAM frames may be sent, including retransmissions.
    pub(crate) fn may_send(self) -> bool {
        matches!(self, Self::Ready | Self::Send | Self::DataSent)
    }

    /// Returns whether the half has reached a terminal state.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::DataRecvd | Self::ResetRecvd)
    }
}

/// The receiving half (RFC 9000 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReceiveState {
    /// Open; the final size is unknown.
    #[default]
    Recv,
    /// The final size is known, but some data is missing.
    SizeKnown,
    /// All data has been received.
    DataRecvd,
    /// The peer reset the stream.
    ResetRecvd,
    /// The application has read everything, including the end.
    DataRead,
    /// The application has been informed of the reset.
    ResetRead,
}

/// Input to the state machine of the receiving half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveInput {
    /// FIN announces the final size.
    Fin,
    /// The last missing byte has arrived.
    AllReceived,
    /// RESET_STREAM.
    Reset,
    /// The application reads the end.
    ReadEnd,
    /// The application reads the reset.
    ReadReset,
}

impl ReceiveState {
    /// Returns the next state; `None` if the input does not apply and nothing changes.
    pub(crate) fn on(self, input: ReceiveInput) -> Option<Self> {
        use ReceiveInput::{AllReceived, Fin, ReadEnd, ReadReset, Reset};
        match (self, input) {
            (Self::Recv, Fin) => Some(Self::SizeKnown),
            (Self::SizeKnown, AllReceived) => Some(Self::DataRecvd),
            // A reset after all data has been received may be ignored (RFC 9000 §3.2), so that the
            // application can still read the data.
            (Self::Recv | Self::SizeKnown, Reset) => Some(Self::ResetRecvd),
            (Self::DataRecvd, ReadEnd) => Some(Self::DataRead),
            (Self::ResetRecvd, ReadReset) => Some(Self::ResetRead),
            _ => None,
        }
    }

    /// Returns whether further stream data may arrive and is kept.
    pub(crate) fn may_receive(self) -> bool {
        matches!(self, Self::Recv | Self::SizeKnown)
    }

    /// Returns whether the peer reset the stream.
    pub(crate) fn is_reset(self) -> bool {
        matches!(self, Self::ResetRecvd | Self::ResetRead)
    }

    /// Returns whether the half has reached a terminal state.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::DataRead | Self::ResetRead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_follows_figure_2() {
        use SendInput::*;
        use SendState::*;
        let arrows = [
            (Ready, Frame, Send),
            (Ready, Fin, DataSent),
            (Send, Fin, DataSent),
            (Ready, Reset, ResetSent),
            (Send, Reset, ResetSent),
            (DataSent, Reset, ResetSent),
            (DataSent, AllAcked, DataRecvd),
            (ResetSent, ResetAcked, ResetRecvd),
        ];
        for state in [Ready, Send, DataSent, ResetSent, DataRecvd, ResetRecvd] {
            for input in [Frame, Fin, Reset, AllAcked, ResetAcked] {
                let arrow = arrows.iter().find(|arrow| arrow.0 == state && arrow.1 == input);
                assert_eq!(state.on(input), arrow.map(|arrow| arrow.2), "{state:?} on {input:?}");
            }
            let leaves = arrows.iter().any(|arrow| arrow.0 == state);
            assert_eq!(state.is_terminal(), !leaves, "{state:?}");
            assert_eq!(state.may_send(), state.on(Reset).is_some(), "{state:?}");
        }
    }

    #[test]
    fn receiving_follows_figure_3() {
        use ReceiveInput::*;
        use ReceiveState::*;
        let arrows = [
            (Recv, Fin, SizeKnown),
            (SizeKnown, AllReceived, DataRecvd),
            (Recv, Reset, ResetRecvd),
            (SizeKnown, Reset, ResetRecvd),
            (DataRecvd, ReadEnd, DataRead),
            (ResetRecvd, ReadReset, ResetRead),
        ];
        for state in [Recv, SizeKnown, DataRecvd, ResetRecvd, DataRead, ResetRead] {
            for input in [Fin, AllReceived, Reset, ReadEnd, ReadReset] {
                let arrow = arrows.iter().find(|arrow| arrow.0 == state && arrow.1 == input);
                assert_eq!(state.on(input), arrow.map(|arrow| arrow.2), "{state:?} on {input:?}");
            }
            let leaves = arrows.iter().any(|arrow| arrow.0 == state);
            assert_eq!(state.is_terminal(), !leaves, "{state:?}");
            assert_eq!(state.may_receive(), state.on(Reset).is_some(), "{state:?}");
        }
    }
}
