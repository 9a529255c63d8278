package mediabudget

import (
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
)

// mostHead is how much of an image is read for its size, in bytes: JPEG has
// thumbnails and color profiles in front of that.
const mostHead = 512 << 10

// Pixels returns the width and the height that the data URL of an image tells; 0 if
// it tells none.
func Pixels(url string) (width, height int) {
	_, data, isData := dataURL(url)
	head, _, _ := strings.Cut(url[:len(url)-len(data)], ",")
	if !isData || !strings.HasSuffix(head, ";base64") {
		return 0, 0
	}
	data = data[:min(len(data), mostHead/3*4)]
	for _, read := range []func(io.Reader) (image.Config, error){png.DecodeConfig, jpeg.DecodeConfig, gif.DecodeConfig, decodeWebP} {
		config, err := read(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
		if err == nil {
			return config.Width, config.Height
		}
	}
	return 0, 0
}

// decodeWebP reads the size of an image as developers.google.com/speed/webp/docs/riff_container
// describes it.
func decodeWebP(r io.Reader) (config image.Config, err error) {
	var head [30]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return config, err
	}
	if string(head[:4]) != "RIFF" || string(head[8:12]) != "WEBP" {
		return config, image.ErrFormat
	}
	switch string(head[12:16]) {
	case "VP8X":
		config.Width = 1 + (int(head[24]) | int(head[25])<<8 | int(head[26])<<16)
		config.Height = 1 + (int(head[27]) | int(head[28])<<8 | int(head[29])<<16)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(head[21:])
		config.Width, config.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case "VP8 ":
		config.Width = int(binary.LittleEndian.Uint16(head[26:]) & 0x3fff)
		config.Height = int(binary.LittleEndian.Uint16(head[28:]) & 0x3fff)
	default:
		return config, image.ErrFormat
	}
	return config, nil
}
