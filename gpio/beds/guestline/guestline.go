// Package guestline carries shell orders over a serial line into an emulated
// BMC. Both ends are here: the cases outside use [Line], the program inside runs
// [Serve].
//
// Each frame is one line of JSON. Lines that are none are ignored: a boot loader
// or a terminal may leave some.
package guestline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

type frame struct {
	ID     int    `json:"id"`
	Order  string `json:"order,omitempty"`  // to the guest
	Output string `json:"output,omitempty"` // from the guest
	Status int    `json:"status"`
	Boot   string `json:"boot,omitempty"` // from the guest when it comes up: its boot id
}

// Serve runs the orders that come in, each by a shell of its own, until the line
// ends. It begins by saying which boot this is.
func Serve(line io.ReadWriter, bootID string) error {
	var mu sync.Mutex
	send := func(f frame) {
		mu.Lock()
		defer mu.Unlock()
		out, err := json.Marshal(f)
		if err == nil {
			_, _ = line.Write(append(out, '\n')) // a line that is gone ends the reader below
		}
	}
	var orders sync.WaitGroup
	defer orders.Wait()
	send(frame{Boot: bootID})
	return frames(line, func(f frame) {
		if f.Order == "" {
			return
		}
		orders.Go(func() {
			output, err := exec.Command("/bin/sh", "-c", f.Order).CombinedOutput()
			answer := frame{ID: f.ID, Output: strings.TrimRight(string(output), "\n")}
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit):
				answer.Status = exit.ExitCode()
			case err != nil:
				answer.Status, answer.Output = 127, err.Error()
			}
			send(answer)
		})
	})
}

func frames(r io.Reader, each func(frame)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f frame
		if json.Unmarshal(lines.Bytes(), &f) == nil {
			each(f)
		}
	}
	return lines.Err()
}

// Line is the outer end. Its methods are safe for concurrent use.
type Line struct {
	conn io.ReadWriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan frame
	boots   chan string
	done    chan struct{}
}

// NewLine takes the connection over; Close gives it back.
func NewLine(conn io.ReadWriteCloser) *Line {
	l := &Line{conn: conn, waiting: map[int]chan frame{}, boots: make(chan string, 16), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		_ = frames(conn, l.take) // the line's end is what done says
	}()
	return l
}

func (l *Line) take(f frame) {
	if f.Boot != "" {
		select {
		case l.boots <- f.Boot:
		default: // nobody counts so many boots
		}
		return
	}
	l.mu.Lock()
	answer := l.waiting[f.ID]
	delete(l.waiting, f.ID)
	l.mu.Unlock()
	if answer != nil {
		answer <- f
	}
}

// Boots yields the boot id whenever the guest has come up.
func (l *Line) Boots() <-chan string { return l.boots }

// Run has the guest's shell run an order. It returns what the order printed, and
// an error that holds it when the status was not 0.
func (l *Line) Run(ctx context.Context, order string) (string, error) {
	answer := make(chan frame, 1)
	l.mu.Lock()
	l.last++
	id := l.last
	l.waiting[id] = answer
	out, err := json.Marshal(frame{ID: id, Order: order})
	if err == nil {
		_, err = l.conn.Write(append(out, '\n'))
	}
	l.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("guest: %q: %w", order, err)
	}
	select {
	case f := <-answer:
		if f.Status != 0 {
			return f.Output, fmt.Errorf("guest: %q: status %d: %s", order, f.Status, f.Output)
		}
		return f.Output, nil
	case <-l.done:
		return "", fmt.Errorf("guest: %q: the machine is gone", order)
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
		return "", fmt.Errorf("guest: %q: %w", order, ctx.Err())
	}
}

// Close ends the line and waits for its reader.
func (l *Line) Close() {
	_ = l.conn.Close() // nothing is left to be sent
	<-l.done
}
