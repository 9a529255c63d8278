//go:build !linux

package server

import (
	"context"
	"fmt"
	"net"
)

// dialLoopback connects to a port of this machine by IPv4, or by IPv6 if that
// fails. If both fail, it returns the error of IPv4.
func dialLoopback(ctx context.Context, port int) (duplex, error) {
	dialer := net.Dialer{Timeout: dialPatience}
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		var err6 error
		if conn, err6 = dialer.DialContext(ctx, "tcp", fmt.Sprintf("[::1]:%d", port)); err6 != nil {
			return nil, err
		}
	}
	return conn.(*net.TCPConn), nil
}
