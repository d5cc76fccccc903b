"""Messages to browsers through their push services: checked, encrypted and signed."""
