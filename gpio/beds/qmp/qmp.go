// Package qmp speaks QEMU's machine protocol: commands that are answered, and
// events in between.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrGone means that the emulator has closed the connection.
var ErrGone = errors.New("qmp: the emulator is gone")

// Client is one connection. Its methods are safe for concurrent use.
type Client struct {
	conn    net.Conn
	onEvent func(name string)

	mu      sync.Mutex // one command at a time
	replies chan reply
	done    chan struct{}
}

type reply struct {
	Return json.RawMessage `json:"return"`
	Event  string          `json:"event"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// Dial connects to the socket, which may appear only in a while, and ends the
// greeting. onEvent is called for every event, in order, from the goroutine that
// reads; it must not block and must not call the client.
func Dial(ctx context.Context, socket string, onEvent func(name string)) (*Client, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("qmp: %w", err)
	}
	c := &Client{conn: conn, onEvent: onEvent, replies: make(chan reply), done: make(chan struct{})}
	go c.read()
	if _, err := c.Execute("qmp_capabilities", nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Client) read() {
	defer close(c.done)
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		switch {
		case r.Event != "":
			if c.onEvent != nil {
				c.onEvent(r.Event)
			}
		case r.Return != nil || r.Error != nil:
			c.replies <- r
		}
	}
}

// Execute runs a command and returns its result.
func (c *Client) Execute(command string, arguments map[string]any) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return nil, fmt.Errorf("qmp: %s: %w", command, err)
	}
	if arguments == nil {
		out = fmt.Appendf(nil, `{"execute":%q}`, command)
	}
	if _, err := c.conn.Write(append(out, '\n')); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case r := <-c.replies:
		if r.Error != nil {
			return nil, fmt.Errorf("qmp: %s: %s: %s", command, r.Error.Class, r.Error.Desc)
		}
		return r.Return, nil
	case <-c.done:
		return nil, ErrGone
	}
}

// Close ends the connection and waits for the reader.
func (c *Client) Close() {
	c.conn.Close()
	for {
		select {
		case <-c.replies: // of a command whose caller has left
		case <-c.done:
			return
		}
	}
}
