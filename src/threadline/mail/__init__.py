"""Mail: what leaves by SMTP."""
