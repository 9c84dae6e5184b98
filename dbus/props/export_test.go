package props

import "time"

// UseStockDispatch sorts calls where godbus would run them, as an export
// without our gate does.
func (s *Service) UseStockDispatch() { s.stockDispatch = true }

// BeforeIdentify has f called before the bus driver is asked for a sender's uid.
func (s *Service) BeforeIdentify(f func(sender string)) { s.senders.identifying = f }

// IdentifyWithin bounds the wait for the bus driver; 0 is over at once.
func (s *Service) IdentifyWithin(d time.Duration) {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	s.senders.patience = d
}

// Senders returns how many senders are remembered.
func (s *Service) Senders() int {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	return len(s.senders.all)
}

// Open returns how many bytes the calls of all senders take.
func (s *Service) Open() int {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	return s.senders.open
}

// Knows reports whether a sender's uid is cached.
func (s *Service) Knows(sender string) bool {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	f := s.senders.all[sender]
	return f != nil && f.known
}

// Queued returns the length of the outbox.
func (s *Service) Queued() int {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return len(s.out.items)
}

// These are the limits that tests exceed: calls and bytes of one sender, a
// message, the outbox.
const (
	MaxCalls   = maxOpen / callCost
	MaxOpen    = maxOpen
	CompactAt  = compactAt
	MaxMessage = maxMessage
)
