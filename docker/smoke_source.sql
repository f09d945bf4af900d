DROP TABLE IF EXISTS orders;
CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric(18, 4), note text);
INSERT INTO orders SELECT n, n * 1.25, 'order ' || n FROM generate_series(1, 1000) AS n;
ANALYZE orders;
